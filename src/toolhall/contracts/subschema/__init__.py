"""JSON Schema compatibility proof: whether one schema accepts every value that another accepts (find_narrowings).

Theory of operation. A new version of a tool is compatible if its input schema (the target) accepts every value that the
old one (the source) accepts; for results, source and target change roles. Whether one JSON Schema includes another is
undecidable in useful time for the full language, so the comparison is a proof search with three answers: proven
compatible (no Incompatibility), proven incompatible (one with the values that are refused), and not proven
(`proven=False`, with the reason). The last counts as breaking: the search errs on the safe side only.

1. `document.py` normalizes both schemas: older drafts are upgraded, and references and `allOf` are flattened, so that a
position of the document becomes a list of NormalizedNodes, all of which a value must satisfy.
2. `value_facts.py` holds what is known about a value that satisfies a list of source nodes: its types, finite values,
bounds, required members, and the constraints of its members and items.
3. `comparison.py` walks the target. For each keyword of each target node, a rule (`scalar_rules.py`,
`container_rules.py`) asks the facts whether the keyword must hold, and descends into members and items. If the facts
allow only finitely many values, `value_checker.py` checks these instead.
4. If a keyword is not implied and the source has alternatives (`anyOf`, `if`, several types), the proof is repeated for
each alternative with the facts it adds. `relations.py` proves that two schemas are disjoint (for `not`, `oneOf` and
conditions) or equivalent keyword by keyword (for keywords without a rule that could prove them).
5. Recursive schemas are compared coinductively: a question that is already being answered further up may be assumed,
provided that the comparison descended into a part of the value since; otherwise it would prove itself.

Members are compared by declaration: what neither schema declares was never promised (`undeclared`), so open objects do
not make every new member a breaking change. Work is bounded by ComparisonBudget; when it is spent, the answer is not
proven.
"""
