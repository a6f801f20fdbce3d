"""What runs under benchopt: plug-in bases, tasks, peers, runs, the paper's figures."""
