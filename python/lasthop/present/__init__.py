"""What people look at: tables in the terminal, pictures, the report and the lab."""
