"""The report: result files in, one self-contained page, tables and plots out. It computes nothing anew."""

from prism.report.page import report
from prism.report.tables import build_rows, summary_tables, to_csv, to_markdown

__all__ = ["build_rows", "report", "summary_tables", "to_csv", "to_markdown"]
