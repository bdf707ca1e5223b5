// Instance categories: servers that the provider runs in a project.
import {html} from '../../core/html.js';
import * as options from '../../core/options.js';
import {Named} from '../../parts/named.js';
import {DESCRIPTION, NAME, NAME_FIELD, pairs} from '../common.js';

const BUILT_IN = ['regular', 'vpn'];
/** No client has a command for categories. @param {string} method @param {any} row */
const request = (method, row) => `# no command: ${method} /os-instance-categories/${row.name ?? ''}`;
const requirements = (/** @type {any} */ row) =>
  Object.entries(row.requirements ?? {})
    .map(pair => pair.join(' '))
    .join(', ');

/** @param {any} [row] @returns {import('../../parts/form.js').Field[]} */
const fields = row => [
  {...NAME_FIELD, value: row?.name},
  {...DESCRIPTION, value: row?.description},
  {name: 'default_image', label: 'Image', type: 'select', none: 'none', options: options.images, value: row?.default_image ?? ''},
  {name: 'default_flavor', label: 'Flavor', type: 'select', none: 'none', options: options.flavors, value: row?.default_flavor ?? ''},
  {
    name: 'requirements',
    label: 'Requirements of hosts',
    type: 'textarea',
    value: Object.entries(row?.requirements ?? {})
      .map(pair => pair.join('='))
      .join('\n'),
    help: 'name=value, one per line. A value may begin with an operator, as nic_speed=>= 10000.',
  },
];
const body = (/** @type {any} */ values) => ({
  instance_category: {
    name: values.name,
    description: values.description || null,
    default_image: values.default_image || null,
    default_flavor: values.default_flavor || null,
    requirements: pairs(values.requirements),
  },
});

/** @type {import('../resources.js').Resource} */
export default {
  service: 'compute',
  path: '/os-instance-categories',
  key: 'instance_categories',
  empty: 'There are no categories.',
  filters: [{name: 'deleted', label: 'Deleted ones too', query: 'deleted'}],
  columns: [
    NAME,
    {name: 'description', label: 'Description', value: row => row.description || '–'},
    {name: 'image', label: 'Image', value: row => row.default_image ?? '', show: row => html`<${Named} kind="image" id=${row.default_image} />`},
    {name: 'flavor', label: 'Flavor', value: row => row.default_flavor ?? '–'},
    {name: 'requirements', label: 'Requirements of hosts', value: row => requirements(row) || '–', show: row => html`<span class="mono">${requirements(row) || '–'}</span>`},
  ],
  create: {
    name: 'create-category',
    label: 'Create category',
    done: 'Category {name} created',
    rule: 'nova:instance-categories:create',
    form: fields(),
    request: (_row, values) => ({method: 'POST', path: '/os-instance-categories', body: body(values)}),
    command: (_row, values) => request('POST', values),
  },
  actions: [
    {
      name: 'edit',
      label: 'Edit',
      done: 'Category {name} changed',
      rule: 'nova:instance-categories:update',
      when: row => !row.deleted && row.name !== 'regular',
      form: fields,
      request: (row, values) => {
        const {name, ...rest} = body(values).instance_category;
        return {method: 'PUT', path: `/os-instance-categories/${row.id}`, body: {instance_category: name === row.name ? rest : {name, ...rest}}};
      },
      command: row => request('PUT', row),
    },
    {
      name: 'delete',
      label: 'Delete',
      done: 'Category {name} deleted',
      rule: 'nova:instance-categories:delete',
      danger: true,
      when: row => !row.deleted && !BUILT_IN.includes(row.name),
      ask: 'A deleted category is kept until it is purged.',
      request: row => ({method: 'DELETE', path: `/os-instance-categories/${row.id}`}),
      command: row => request('DELETE', row),
    },
    {
      name: 'purge',
      label: 'Purge',
      done: 'Category {name} purged',
      rule: 'nova:instance-categories:purge',
      danger: true,
      when: row => row.deleted,
      request: row => ({method: 'POST', path: `/os-instance-categories/${row.id}/action`, body: {purge: null}}),
      command: row => request('POST', row),
    },
  ],
};
