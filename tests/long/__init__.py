"""Full studies, minutes each: run by hand, results kept with their date in README.md."""
