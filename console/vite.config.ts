/** How the console is built: a script for each screen, one style sheet, two fonts, and addresses that work below any path. */

import { readFileSync } from 'node:fs';
import type { Plugin } from 'vite';
import { defineConfig } from 'vitest/config';

const PACKAGES = [
  'preact',
  '@preact/signals',
  '@preact/signals-core',
  '@fontsource-variable/inter',
  '@fontsource/jetbrains-mono',
];

/** What the first screen needs: one file, so that it is one request, and small, as what is packed together packs well. */
const FIRST = {
  name: 'first',
  test: /node_modules|rolldown|src\/(main|style|json|api|app\/(?!help|found)|words\/\w+\.ts|words\/en\/(connect|first-run|overview)|screens\/overview|ui\/(?!table|filter-line|matrix|timer))/,
};

/** What dialogs of the frame show, parts of several later screens, and small screens: each file less saves half a kilobyte. */
const DIALOGS = { name: 'dialogs', test: /src\/(app\/(help|found)|words\/en\/dialogs)/ };
const HALL = {
  name: 'hall',
  test: /src\/(screens|words\/en)\/(servers|upstreams|contracts|limits|health|settings|tasks|secrets|accounts|review|approvals|callers)[./](?!used-by)/,
};
/** The page of a tool: its tabs share the form and the table of a schema. */
const TOOL = {
  name: 'tool',
  test: /src\/(forms|run|copyas|words\/en\/(try-it|form|versions|definition|add-tool)|screens\/tools\/(try|add|versions|definition|result|run|check|elsewhere|questions|lines))[./]/,
};
const SHARED = {
  name: 'shared',
  test: /words\/en\/(tools|tool-callers|dialects|secrets|accounts|callers)\.|ui\/(table|filter-line)|tools\/(facts|document)|accounts\/used-by/,
};

/** LICENSES.txt: what the licences of the packages inside ask for. */
const licences = (): Plugin => ({
  name: 'licences',
  apply: 'build',
  generateBundle() {
    const texts = PACKAGES.map((name) => {
      const text = readFileSync(new URL(`node_modules/${name}/LICENSE`, import.meta.url), 'utf8');
      return `${name}\n${'='.repeat(name.length)}\n\n${text.trim()}\n`;
    });
    this.emitFile({ type: 'asset', fileName: 'LICENSES.txt', source: texts.join('\n\n') });
  },
});

export default defineConfig({
  base: './',
  plugins: [licences()],
  oxc: { jsx: { runtime: 'automatic', importSource: 'preact' } },
  build: {
    target: 'es2023',
    modulePreload: false,
    assetsInlineLimit: 0,
    cssTarget: ['chrome123', 'firefox128', 'safari18'],
    cssCodeSplit: false,
    reportCompressedSize: true,
    rollupOptions: {
      output: {
        entryFileNames: 'console.js',
        chunkFileNames: '[name].js',
        assetFileNames: '[name][extname]',
        codeSplitting: { groups: [FIRST, DIALOGS, SHARED, TOOL, HALL] },
      },
    },
  },
  test: { include: ['test/**/*.test.ts', 'test/**/*.test.tsx'], environment: 'node', testTimeout: 120_000 },
});
