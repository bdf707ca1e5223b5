"""The page of states and actions, and its diagram, from nova/states.py and nova/actions.py."""
import html
import math

import rst

from nova import actions
from nova import states

SIZE, RADIUS, NODE = 960, 410, 62          # of the diagram, its circle and a state, in pixels


def page():
    lines = [*rst.heading('States and actions'),
             'What a server is (vm state), what is being done to it (task state), and what users see (status).',
             '', '.. raw:: html', '', *('   ' + line for line in diagram()), '',
             'An arrow is an action that succeeded; point at its name to read it whole.']
    lines += [*rst.heading('Status', '-'), *rst.table(('vm state', 'Status', 'While a task runs'), [
        (rst.literal(vm_state), default, '\n'.join(
            f'* {status}: {", ".join(map(rst.literal, tasks))}' for status, tasks in _by_status(by_task).items()))
        for vm_state, (default, by_task) in states.STATUS.items()])]
    lines += [*rst.heading('Actions', '-'), *rst.table(
        ('Action', 'vm states before', 'Task states', 'vm state after', 'Needs', 'Rule'),
        [_action(action) for action in actions.ROWS], '14 22 14 12 18 20')]
    return lines


def _by_status(by_task):
    found = {}
    for task, status in by_task.items():
        found.setdefault(status, []).append(task)
    return found


def _action(action):
    conditions, capability = action.conditions, action.requirements.capability
    needs = [text for text, wanted in (
        ('no other task', conditions.task_states == actions.IDLE), ('not locked', conditions.locked),
        ('a host', conditions.host or action.calls.method), (f'driver feature {capability}', capability)) if wanted]
    before = 'any' if conditions.vm_states is actions.ANY else ', '.join(conditions.vm_states)
    after = rst.literal(action.outcome.after or '')
    if action.outcome.keeps_stopped:
        after += f', {rst.literal(states.STOPPED)} if it was'
    return (rst.literal(action.name), before, ', '.join(map(rst.literal, action.tasks)), after, ', '.join(needs),
            rst.literal(action.policy))


def arrows():
    """{(vm state before, after): names of actions} of the actions that change it."""
    found = {}
    for action in (actions.BUILD, *actions.ROWS):
        allowed, after = action.conditions.vm_states, action.outcome.after
        for before in states.VM_STATES if allowed is actions.ANY else allowed:
            stays = action.outcome.keeps_stopped and before == states.STOPPED
            if not stays and after not in (None, before) and states.DELETED not in (before, after):
                found.setdefault((before, after), []).append(action.name)
    return found


def diagram():
    """Lines of an SVG diagram: states on a circle, an arrow for each change."""
    names = [name for name in states.VM_STATES if name != states.DELETED]
    places = {}
    for number, name in enumerate(names):
        angle = 2 * math.pi * number / len(names) - math.pi / 2
        places[name] = SIZE / 2 + RADIUS * math.cos(angle), SIZE / 2 + RADIUS * math.sin(angle)
    yield (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {SIZE} {SIZE}" width="100%" font-size="13" '
           'font-family="sans-serif">')
    yield ('<defs><marker id="tip" viewBox="0 0 10 10" refX="10" refY="5" markerWidth="8" markerHeight="8" '
           'orient="auto"><path d="M 0 0 L 10 5 L 0 10 z"/></marker></defs>')
    for (before, after), labels in arrows().items():
        yield from _arrow(places[before], places[after], ', '.join(labels))
    for name, (x, y) in places.items():
        yield f'<ellipse cx="{x:.0f}" cy="{y:.0f}" rx="{NODE}" ry="20" fill="#eef" stroke="#335"/>'
        yield f'<text x="{x:.0f}" y="{y + 4:.0f}" text-anchor="middle">{html.escape(name)}</text>'
    yield '</svg>'


def _arrow(start, end, label):
    """A curve bent to the right, so that the way back is another one, with its name next to it."""
    (x1, y1), (x2, y2) = start, end
    length = math.hypot(x2 - x1, y2 - y1)
    ux, uy = (x2 - x1) / length, (y2 - y1) / length
    middle = (x1 + x2) / 2 - uy * length * .12, (y1 + y2) / 2 + ux * length * .12
    x1, y1, x2, y2 = x1 + ux * NODE, y1 + uy * 24, x2 - ux * NODE, y2 - uy * 24
    yield (f'<path d="M {x1:.0f} {y1:.0f} Q {middle[0]:.0f} {middle[1]:.0f} {x2:.0f} {y2:.0f}" fill="none" '
           'stroke="#667" marker-end="url(#tip)"/>')
    x, y = (.4225 * first + .455 * bend + .1225 * last          # at 35 % of the way, where fewer curves meet
            for first, bend, last in ((x1, middle[0], x2), (y1, middle[1], y2)))
    short = label if len(label) < 24 else label[:22] + '…'
    yield (f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="middle" font-size="10" fill="#036">'
           f'<title>{html.escape(label)}</title>{html.escape(short)}</text>')
