"""Read files and dataframes into tables, reporting every problem at once."""
