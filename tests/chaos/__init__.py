"""Programs, no tests: processes of a whole service are killed, stopped and attacked while workers run, and what comes
of it is checked. Short runs of these programs are tests in `system/faults`.
"""
