"""One cell: what it is, what is seen in it, how it is run, and the record that it leaves."""
