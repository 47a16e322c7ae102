import { defineConfig } from "vite";

const DIST = { outDir: "dist", minify: "oxc" as const, target: "es2022" };

/** As an application does it that has Preact instead of React. */
const PREACT = [
  { find: /^react$/, replacement: "preact/compat" },
  { find: "react-dom/client", replacement: "preact/compat/client" },
  { find: "react/jsx-runtime", replacement: "preact/jsx-runtime" },
];

export default defineConfig(({ mode }) => {
  if (mode === "tests") {
    return {
      // The package says that its modules have no side effects. Tests are nothing else, and would be left out.
      build: { ssr: "tests/main.ts", outDir: "out/tests", emptyOutDir: true, rollupOptions: { treeshake: false } },
      ssr: { noExternal: true },
    };
  }
  if (mode === "react" || mode === "preact") {
    const output = { entryFileNames: `${mode}.js` };
    return {
      define: { "process.env.NODE_ENV": '"production"' },
      resolve: { alias: mode === "preact" ? PREACT : [] },
      build: { outDir: "out/page", emptyOutDir: false, rollupOptions: { input: "tests/page.tsx", output } },
    };
  }
  if (mode === "bundle") {
    // Not as a library, for which Vite leaves spaces and comments.
    const output = { entryFileNames: "bundle.js" };
    const rollupOptions = { input: "src/bundle.ts", preserveEntrySignatures: "strict" as const, output };
    return { build: { ...DIST, emptyOutDir: false, modulePreload: false, rollupOptions } };
  }
  const entry = { index: "src/index.ts", indexeddb: "src/indexeddb.ts", react: "src/react.ts" };
  return {
    build: {
      ...DIST,
      emptyOutDir: true,
      lib: { entry, formats: ["es" as const] },
      rollupOptions: { external: [/^@bufbuild\/protobuf/, "react"], output: { chunkFileNames: "[name].js" } },
    },
  };
});
