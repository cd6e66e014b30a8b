"""What happened: SQLAlchemy tables and the one repository class that reads and writes them."""
