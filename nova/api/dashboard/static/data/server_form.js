// The form of a new server, what is sent, and the command of it.
import {openstack} from '../core/command.js';
import * as options from '../core/options.js';
import {may} from '../core/permissions.js';
import {map, terraform} from '../core/terraform.js';
import {lines, pairs} from './common.js';

/** @type {{title: string, folded?: boolean, service?: import('../core/api.js').Service, fields: import('../parts/form.js').Field[]}[]} */
export const GROUPS = [
  {
    title: 'Server',
    fields: [
      {name: 'name', label: 'Name', required: true},
      {name: 'count', label: 'Count', type: 'number', min: 1, max: 1000, value: 1, required: true},
      {name: 'flavor', label: 'Flavor', type: 'select', required: true, options: options.flavors},
    ],
  },
  {
    title: 'Boot source',
    fields: [
      {
        name: 'source',
        label: 'Source',
        type: 'select',
        required: true,
        value: 'image',
        options: [
          {value: 'image', label: 'An image'},
          {value: 'new', label: 'A new volume of an image'},
          {value: 'volume', label: 'A volume'},
        ],
      },
      {
        name: 'image',
        label: 'Image',
        type: 'select',
        required: true,
        options: options.bootImages,
        when: values => values.source !== 'volume',
      },
      {
        name: 'size',
        label: 'Size (GiB)',
        type: 'number',
        min: 1,
        value: 1,
        required: true,
        when: values => values.source === 'new',
      },
      {
        name: 'volume',
        label: 'Volume',
        type: 'select',
        required: true,
        options: options.freeVolumes,
        when: values => values.source === 'volume',
      },
      {
        name: 'ends',
        label: 'Delete the volume with the server',
        type: 'check',
        when: values => values.source !== 'image',
      },
    ],
  },
  {
    title: 'Network and access',
    fields: [
      {
        name: 'networks',
        label: 'Networks',
        type: 'many',
        options: options.serverNetworks,
        help: 'None selected: networks are allocated automatically.',
      },
      {name: 'key', label: 'Key pair', type: 'select', options: options.keypairs, none: 'none'},
      {
        name: 'groups',
        label: 'Security groups',
        type: 'many',
        options: options.securityGroups,
        help: 'None selected: the group default.',
      },
    ],
  },
  {
    title: 'More',
    folded: true,
    fields: [
      {name: 'zone', label: 'Zone', type: 'select', options: options.zones, none: 'any'},
      {name: 'group', label: 'Server group', type: 'select', options: options.serverGroups, none: 'none'},
      {
        name: 'category',
        label: 'Instance category',
        type: 'select',
        none: 'regular',
        options: options.categories,
        when: () => may('nova:servers:create:category'),
      },
      {name: 'description', label: 'Description'},
      {name: 'tags', label: 'Tags', help: 'Separated by commas'},
      {name: 'metadata', label: 'Metadata', type: 'textarea', help: 'key=value, one per line'},
      {name: 'user_data', label: 'User data', type: 'textarea', help: 'Read by cloud-init in the guest'},
      {name: 'config_drive', label: 'Config drive', type: 'check'},
    ],
  },
];

const words = (/** @type {string} */ text) =>
  text
    .split(',')
    .map(word => word.trim())
    .filter(Boolean);
/** Text as base64 of UTF-8. @param {string} text */
const encoded = text => btoa(Array.from(new TextEncoder().encode(text), one => String.fromCharCode(one)).join(''));

/** The document of POST /servers. @param {any} values @throws {Error} a line of the metadata is wrong */
export function body(values) {
  const disk = {boot_index: 0, destination_type: 'volume', delete_on_termination: values.ends};
  return {
    server: {
      name: values.name,
      flavorRef: values.flavor,
      min_count: Number(values.count) || 1,
      max_count: Number(values.count) || 1,
      networks: values.networks.length ? values.networks.map((/** @type {string} */ uuid) => ({uuid})) : 'auto',
      ...(values.source === 'image' ? {imageRef: values.image} : {}),
      ...(values.source === 'new'
        ? {
            block_device_mapping_v2: [
              {...disk, uuid: values.image, source_type: 'image', volume_size: Number(values.size)},
            ],
          }
        : {}),
      ...(values.source === 'volume'
        ? {block_device_mapping_v2: [{...disk, uuid: values.volume, source_type: 'volume'}]}
        : {}),
      ...(values.key ? {key_name: values.key} : {}),
      ...(values.groups.length ? {security_groups: values.groups.map((/** @type {string} */ name) => ({name}))} : {}),
      ...(values.zone ? {availability_zone: values.zone} : {}),
      ...(values.description ? {description: values.description} : {}),
      ...(values.tags ? {tags: words(values.tags)} : {}),
      ...(values.metadata ? {metadata: pairs(values.metadata)} : {}),
      ...(values.user_data ? {user_data: encoded(values.user_data)} : {}),
      ...(values.config_drive ? {config_drive: true} : {}),
      ...(values.category ? {'os-instance-categories:category': values.category} : {}),
    },
    ...(values.group ? {'os:scheduler_hints': {group: values.group}} : {}),
  };
}

/** @param {any} values */
export const command = values =>
  openstack(
    'server create',
    ['--flavor', values.flavor],
    ['--image', values.source !== 'volume' && values.image],
    ['--boot-from-volume', values.source === 'new' && values.size],
    values.source === 'new' && values.ends && '--delete-on-termination',
    ['--volume', values.source === 'volume' && !values.ends && values.volume],
    [
      '--block-device',
      values.source === 'volume' &&
        values.ends &&
        `uuid=${values.volume},source_type=volume,boot_index=0,delete_on_termination=true`,
    ],
    ...values.networks.map((/** @type {string} */ network) => ['--network', network]),
    ['--key-name', values.key],
    ...values.groups.map((/** @type {string} */ group) => ['--security-group', group]),
    ['--availability-zone', values.zone],
    ['--hint', values.group && `group=${values.group}`],
    ['--description', values.description],
    ...words(values.tags).map(tag => /** @type {[string, string]} */ (['--tag', tag])),
    ...lines(values.metadata).map(line => /** @type {[string, string]} */ (['--property', line])),
    values.user_data && '--user-data FILE',
    values.config_drive && '--use-config-drive',
    ['--min', Number(values.count) > 1 && values.count],
    ['--max', Number(values.count) > 1 && values.count],
    ['', ''],
    values.name ? `'${values.name.replaceAll("'", "'\\''")}'` : 'NAME',
  );

/** @param {any} values */
export const hcl = values =>
  terraform('compute_instance_v2', values.name, {
    name: values.name,
    flavor_id: values.flavor,
    image_id: values.source === 'image' ? values.image : undefined,
    key_pair: values.key,
    security_groups: values.groups,
    availability_zone: values.zone,
    config_drive: values.config_drive || undefined,
    user_data: values.user_data,
    tags: words(values.tags),
    metadata: map(pairs(lines(values.metadata).filter(line => line.indexOf('=') > 0).join('\n'))),
    count: Number(values.count) > 1 ? Number(values.count) : undefined,
    network: values.networks.map((/** @type {string} */ uuid) => ({uuid})),
    ...(values.source === 'image'
      ? {}
      : {
          block_device: {
            uuid: values.source === 'volume' ? values.volume : values.image,
            source_type: values.source === 'volume' ? 'volume' : 'image',
            destination_type: 'volume',
            volume_size: values.source === 'new' ? Number(values.size) : undefined,
            boot_index: 0,
            delete_on_termination: !!values.ends,
          },
        }),
    ...(values.group ? {scheduler_hints: {group: values.group}} : {}),
  });
