"""The report: result files in, one self-contained page, tables and plots out. It computes nothing anew.

`rows`, `text`, `plots` and `videos` show them; `page` puts these together by data set,
and writes the HTML file.
"""
