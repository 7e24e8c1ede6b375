"""What is remembered: tables, short writes, reads named by their question. The only SQL of the product."""
