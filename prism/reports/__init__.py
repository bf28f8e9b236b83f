"""The report: a self-contained page with tables, plots and videos from result files, without new scores."""
