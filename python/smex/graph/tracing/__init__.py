"""Message and reduce functions of users as formulas, so that they run as one kernel."""
