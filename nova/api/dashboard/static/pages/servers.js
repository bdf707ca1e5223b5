// The list of servers; with an id in the address, one of them.
import {html} from '../core/html.js';
import List from './list.js';
import {Server} from './server.js';

/** @param {{page: any, path: string[], query: URLSearchParams}} props */
export default ({page, path, query}) =>
  path[1]
    ? html`<${Server} key=${path[1]} id=${path[1]} tab=${path[2] ?? 'overview'} />`
    : html`<${List} page=${page} path=${path} query=${query} />`;
