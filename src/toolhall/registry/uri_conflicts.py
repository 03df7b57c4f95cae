"""URI conflicts between toolkits: `shared_uri` finds a resource of another toolkit that means some of the same URIs.

Equal URIs are kept apart by NameClaims. Here templates are compared too: `shop://orders/17` of one toolkit would be
read instead of `shop://orders/{number}` of another. Templates are compared by a sample of what they expand to, in both
directions, so that a conflict does not depend on which toolkit was there first.
"""

from collections.abc import Iterable, Iterator

from toolhall.model.tool import Tool
from toolhall.model.uri_template import UriTemplate
from toolhall.registry.snapshot import ResourceListing
from toolhall.registry.uri_index import UriIndex

_SAMPLE = "0"


def shared_uri(tools: Iterable[Tool], served: ResourceListing) -> tuple[Tool, Tool] | None:
    """Return one of these resources and a served one of another toolkit that has some of its URIs, or None."""
    declared = [(template, tool) for tool in tools if (template := _template_of(tool)) is not None]
    if not declared:
        return None
    for template, tool in declared:
        for uri in _samples(template):
            found = served.match(uri)
            if found is not None and found.value.tool.id.toolkit != tool.id.toolkit:
                return tool, found.value.tool
    exact = {template.text: tool for template, tool in declared if not template.is_template}
    index = UriIndex(exact, [(template, tool) for template, tool in declared if template.is_template])
    for entry in served.listed:
        for uri in _samples(entry.uri_template) if entry.uri_template is not None else ():
            match = index.find(uri)
            if match is not None and match.value.id.toolkit != entry.tool.id.toolkit:
                return match.value, entry.tool
    return None


def _template_of(tool: Tool) -> UriTemplate | None:
    return None if tool.resource is None else UriTemplate(tool.resource.uri, any_path=tool.resource.any_path)


def _samples(template: UriTemplate) -> Iterator[str]:
    """Yield URIs that match: with all variables, and without those of the query."""
    yield template.expand(dict.fromkeys(template.variables, _SAMPLE))
    if template.query_variables:
        required = [name for name in template.variables if name not in template.query_variables]
        yield template.expand(dict.fromkeys(required, _SAMPLE))
