"""Generator of static/data/action_states.js, the dashboard's copy of nova/actions.py.

    python3 tools/dashboard_states.py write

A contract test reports differences.
"""
import sys

import orjson

from nova import actions
from nova.api.dashboard import app

FILE = app.STATIC / 'data' / 'action_states.js'
HEAD = '''// Made of nova/actions.py by "python3 tools/dashboard_states.py write": states and rule of actions.
// null: any. A locked server takes what has locked: true from administrators alone.

/**
 * @type {Record<string,
 *   {vm_states: string[] | null, task_states: (string | null)[] | null, locked: boolean, rule: string}>}
 */
export const STATES = {
'''


def render() -> str:
    """Return the text of the file."""
    rows = []
    for action in actions.ROWS:
        needed = action.conditions
        row = {'vm_states': needed.vm_states, 'task_states': needed.task_states, 'locked': needed.locked,
               'rule': action.policy}
        rows.append(f"  '{action.name}': {orjson.dumps(row).decode()},\n")
    return HEAD + ''.join(rows) + '};\n'


if __name__ == '__main__':
    if sys.argv[1:] != ['write']:
        sys.exit(__doc__)
    FILE.write_text(render())
