// Who did what: the audit log of the project, or of all of them for administrators.
import {html} from '../../core/html.js';
import {isAdmin} from '../../core/session.js';
import {short} from '../../core/text.js';
import {Ago, Badge} from '../../parts/basics.js';
import {Named} from '../../parts/named.js';
import {PROJECT} from '../common.js';

/** @type {import('../resources.js').Resource} */
export default {
  service: 'compute',
  path: '/os-audit',
  key: 'audit_records',
  paged: true,
  filters: [
    {
      name: 'since',
      label: 'Period',
      none: 'Any time',
      sent: hours => new Date(Date.now() - Number(hours) * 3600000).toISOString(),
      options: [
        {value: '1', label: 'Last hour'},
        {value: '24', label: 'Last day'},
        {value: '168', label: 'Last week'},
      ],
    },
    {
      name: 'outcome',
      label: 'Outcome',
      none: 'Any outcome',
      options: ['accepted', 'denied', 'failed', 'unknown'].map(value => ({value, label: value})),
    },
  ],
  query: () => (isAdmin() ? {all_projects: true} : {}),
  empty: 'There are no entries yet.',
  columns: [
    {name: 'action', label: 'Action', value: row => row.action?.replace('os_compute_api:', '')},
    {
      name: 'outcome',
      label: 'Outcome',
      value: row => row.outcome,
      show: row => html`<span><${Badge} state=${row.outcome} /></span>`,
    },
    {name: 'code', label: 'Code', number: true, value: row => row.code},
    {
      name: 'target',
      label: 'Target',
      value: row => `${row.target_type ?? ''} ${row.target_id ?? ''}`,
      show: row =>
        html`<span>${row.target_type ?? '–'} <span class="mono quiet" title=${row.target_id}>${row.target_id ? short(row.target_id) : ''}</span></span>`,
    },
    {
      name: 'user',
      label: 'User',
      value: row => row.user_id,
      show: row => html`<${Named} kind="user" id=${row.user_id} plain />`,
    },
    PROJECT,
    {name: 'from', label: 'From', value: row => row.remote_address},
    {name: 'reason', label: 'Reason', value: row => row.reason || '–'},
    {name: 'at', label: 'When', value: row => row.created_at, show: row => html`<${Ago} at=${row.created_at} />`},
  ],
  actions: [],
};
