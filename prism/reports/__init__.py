"""The report: result files in, one self-contained page with tables and plots out. It computes nothing anew."""
