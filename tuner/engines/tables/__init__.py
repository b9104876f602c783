"""What is known of each engine as data: flags by version, log lines, rules. No behaviour."""
