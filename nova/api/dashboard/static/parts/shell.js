// The frame around every page: navigation, the project, the palette, notices.
import {html, useEffect, useRef, useState} from '../core/html.js';
import {call, has} from '../core/api.js';
import {logout, switchProject} from '../core/login.js';
import {failed} from '../core/notices.js';
import {loadPermissions} from '../core/permissions.js';
import {config, isAdmin, required} from '../core/session.js';
import {usePlace} from '../core/router.js';
import {t} from '../core/text.js';
import {PAGES, SECTIONS} from '../data/navigation.js';
import {Busy, Empty, Refusal} from './basics.js';
import {Icon} from './icons.js';
import {Notices} from './notices.js';
import {Palette} from './palette.js';
import {ThemeButton} from './theme.js';

/** The sections that this user and this cloud have. */
export const sections = () =>
  SECTIONS.filter(section => !section.admin || isAdmin()).map(section => ({
    ...section,
    pages: section.pages.filter(page => !page.hidden && (!page.service || has(page.service)) && (!page.offered || page.offered())),
  }));

export function Shell() {
  const place = usePlace();
  const [palette, setPalette] = useState(false);
  const [drawer, setDrawer] = useState(false);
  useEffect(() => {
    setDrawer(false);
  }, [place]);
  useEffect(() => {
    const keys = (/** @type {KeyboardEvent} */ event) => {
      const typing = /^(INPUT|TEXTAREA|SELECT)$/.test(/** @type {Element} */ (event.target).tagName);
      if ((event.key === 'k' && (event.ctrlKey || event.metaKey)) || (event.key === '/' && !typing)) {
        event.preventDefault();
        setPalette(true);
      }
    };
    addEventListener('keydown', keys);
    return () => removeEventListener('keydown', keys);
  }, []);
  return html`
    <a class="skip" href="#main" onClick=${(/** @type {Event} */ event) => {
      event.preventDefault();
      document.getElementById('main')?.focus();
    }}>${t('Skip to the content')}</a>
    <div class="shell ${drawer ? 'drawer-open' : ''}">
      <${Top} openPalette=${() => setPalette(true)} openDrawer=${() => setDrawer(!drawer)} drawer=${drawer} />
      <${Side} at=${place.path[0] ?? ''} />
      <main id="main" tabindex="-1"><${Outlet} place=${place} /></main>
    </div>
    ${palette && html`<${Palette} onClose=${() => setPalette(false)} />`}
    <${Notices} />`;
}

/** @param {{openPalette: () => void, openDrawer: () => void, drawer: boolean}} props */
function Top({openPalette, openDrawer, drawer}) {
  const session = required();
  return html`
    <header class="top">
      <button type="button" class="icon-button burger" aria-label=${t('Navigation')} aria-expanded=${drawer} onClick=${openDrawer}><${Icon} name="menu" /></button>
      <a class="brand" href="#/"><span class="logo"><${Icon} name="flavor" size=${18} /></span><span>${t('Cloud')}</span></a>
      <button type="button" class="finder" onClick=${openPalette} aria-keyshortcuts="Control+K"><${Icon} name="search" size=${16} /><span>${t('Go to or find …')}</span><kbd>Ctrl K</kbd></button>
      <${ProjectChoice} />
      <a class="who" href="#/account" title=${session.roles.join(', ')}>${session.user.name}</a>
      <${ThemeButton} />
      <button type="button" class="icon-button" aria-label=${t('Log out')} title=${t('Log out')} onClick=${logout}><${Icon} name="out" /></button>
    </header>`;
}

function ProjectChoice() {
  const {project} = required();
  const [projects, setProjects] = useState(project ? [project] : []);
  useEffect(() => {
    call('identity', '/auth/projects').then(
      found => setProjects(found.projects),
      () => null,
    );
  }, []);
  return html`
    <label class="project"><span class="unseen">${t('Project')}</span>
      <select value=${project?.id} onChange=${(/** @type {any} */ event) =>
        switchProject(event.target.value).catch(error => {
          event.target.value = project?.id;
          failed(t('The project was not changed'), error);
        })}>${projects.map(one => html`<option key=${one.id} value=${one.id} selected=${one.id === project?.id}>${one.name}</option>`)}</select></label>`;
}

/** @param {{at: string}} props */
const Side = ({at}) => html`
  <nav class="side" aria-label=${t('Pages')}>${sections().map(
    section =>
      section.pages.length > 0 &&
      html`
    <div class="side-section"><h2>${t(section.label)}</h2><ul>${section.pages.map(
      page => html`
      <li><a href=${'#/' + page.path} aria-current=${page.path === at || (page.path === 'servers' && at === 'create') ? 'page' : undefined}><${Icon} name=${page.icon} /><span>${t(page.label)}</span></a></li>`,
    )}</ul></div>`,
  )}<p class="release">${t('Version {release}', {release: config.release})}</p></nav>`;

const RENEWED = 'nova.renewed';
/** Load the page again, once for each release, because its modules belong to an older release. */
function renewed() {
  if (sessionStorage.getItem(RENEWED) === config.version) return false;
  sessionStorage.setItem(RENEWED, config.version);
  location.reload();
  return true;
}

/** The page of a place; its module is loaded when it is first shown. @param {{place: import('../core/router.js').Place}} props */
function Outlet({place}) {
  const page = PAGES.find(one => one.path === (place.path[0] ?? ''));
  const [shown, setShown] = useState(/** @type {any} */ (null));
  const moved = useRef(false);
  useEffect(() => {
    let wanted = true;
    page &&
      Promise.all([page.load(), loadPermissions()]).then(
      ([module]) => wanted && setShown({path: page.path, component: module.default, page}),
      error => wanted && !renewed() && setShown({path: page.path, error}),
    );
    return () => {
      wanted = false;
    };
  }, [page]);
  useEffect(() => {
    // who hears the page hears that it is another one
    if (moved.current)
      /** @type {HTMLElement | null} */ (document.querySelector('main h1'))?.focus({preventScroll: true});
    moved.current = true;
    scrollTo(0, 0);
  }, [shown, place.path.join('/')]);
  if (!page)
    return html`<${Empty} icon="question" text=${t('There is no such page.')}><a class="button" href="#/">${t('Overview')}</a></${Empty}>`;
  if (!shown || shown.path !== page.path) return html`<${Busy} label=${t('Loading …')} />`;
  if (shown.error) {
    return html`<${Empty} icon="reload" text=${t('This page cannot be loaded. The server does not answer, or has another release.')}><button type="button" class="primary" onClick=${() => location.reload()}>${t('Load again')}</button><${Refusal} error=${shown.error} /></${Empty}>`;
  }
  return html`<${shown.component} key=${page.path} page=${page} path=${place.path} query=${place.query} />`;
}
