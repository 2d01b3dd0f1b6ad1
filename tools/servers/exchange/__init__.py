"""A simulated exchange to trade against: matching engine, market data (ITCH, GLIMPSE), order entry (OUCH)."""
