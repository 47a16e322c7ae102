import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { defineConfig, type Plugin } from "vite";

/** The files of the shell with a digest of each: what the service worker keeps. */
function shell(folder: string): { url: string; revision: string | null }[] {
  const files = readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && entry.name !== "sw.js")
    .map((entry) => join(entry.parentPath, entry.name).slice(folder.length + 1))
    .sort();
  return files.map((url) => ({
    url: `/${url}`,
    // The names of what the build has made change with what is in it.
    revision: url.startsWith("assets/")
      ? null
      : createHash("sha256")
          .update(readFileSync(join(folder, url)))
          .digest("hex")
          .slice(0, 16),
  }));
}

const listed: Plugin = {
  name: "list-the-shell",
  renderChunk: (code) => code.replace("self.__WB_MANIFEST", JSON.stringify(shell("out/static"))),
};

export default defineConfig(({ mode }) => {
  const common = {
    oxc: { jsx: { runtime: "automatic" as const, importSource: "preact" } },
    // The sources of the package, so that the page gets only what it uses.
    resolve: { alias: [{ find: /^psoup-client\//, replacement: `${resolve("../typescript/src")}/` }] },
  };
  if (mode === "vectors") {
    return {
      ...common,
      build: { ssr: "tests/main.ts", outDir: "out/vectors", emptyOutDir: true },
      ssr: { noExternal: true },
    };
  }
  if (mode === "worker") {
    const output = { entryFileNames: "sw.js", format: "iife" as const };
    return {
      define: { "process.env.NODE_ENV": '"production"' },
      plugins: [listed],
      publicDir: false,
      build: { outDir: "out/static", emptyOutDir: false, rollupOptions: { input: "src/sw.ts", output } },
    };
  }
  return {
    ...common,
    build: {
      outDir: "out/static",
      emptyOutDir: true,
      assetsInlineLimit: 0,
      modulePreload: { polyfill: false },
      rollupOptions: {
        output: {
          entryFileNames: "assets/app-[hash].js",
          chunkFileNames: "assets/[name]-[hash].js",
          assetFileNames: "assets/[name]-[hash][extname]",
        },
      },
    },
  };
});
