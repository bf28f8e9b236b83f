"""The report: result files in, one self-contained page, tables and plots out. It computes nothing anew."""
