"""Web pages for people: approvals, passkey enrolment and account linking."""
