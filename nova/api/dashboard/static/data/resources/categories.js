// Instance categories: servers that the provider runs in a project.
import {html} from '../../core/html.js';

const none = (/** @type {string} */ what) => (/** @type {any} */ row) =>
  `# no command: ${what} /os-instance-categories/${row.name ?? ''}`;

/** @type {import('../resources.js').Resource} */
export default {
  service: 'compute',
  path: '/os-instance-categories',
  key: 'instance_categories',
  empty: 'There are no categories.',
  columns: [
    {name: 'name', label: 'Name', value: row => row.name},
    {name: 'description', label: 'Description', value: row => row.description || '–'},
    {
      name: 'requirements',
      label: 'Asked of hosts',
      value: row =>
        Object.entries(row.requirements ?? {})
          .map(pair => pair.join(' '))
          .join(', ') || '–',
      show: row =>
        html`<span class="mono">${
          Object.entries(row.requirements ?? {})
            .map(pair => pair.join(' '))
            .join(', ') || '–'
        }</span>`,
    },
  ],
  create: {
    name: 'make-category',
    label: 'Make a category',
    form: [
      {name: 'name', label: 'Name', required: true},
      {name: 'description', label: 'Description'},
    ],
    request: (_row, {name, description}) => ({
      method: 'POST',
      path: '/os-instance-categories',
      body: {instance_category: {name, ...(description ? {description} : {})}},
    }),
    command: (_row, values) => none('POST')(values),
  },
  actions: [
    {
      name: 'delete',
      label: 'Delete',
      danger: true,
      when: row => !['regular', 'vpn'].includes(row.name),
      request: row => ({method: 'DELETE', path: `/os-instance-categories/${row.id}`}),
      command: none('DELETE'),
    },
  ],
};
