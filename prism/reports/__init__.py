"""The report: result files in, one self-contained page, tables and plots out. It computes nothing anew.

`sources` opens the files, and `rows` holds the numbers of each result. `tables`, `series`, `plots`, `notes` and
`gallery` are the ways to show them, `sections` collects these by data set, and `page` writes the HTML file.
"""
