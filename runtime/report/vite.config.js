import { defineConfig } from "vite";
import { viteSingleFile } from "vite-plugin-singlefile";

export default defineConfig({
  plugins: [viteSingleFile()],
  build: { target: "es2021", reportCompressedSize: false, chunkSizeWarningLimit: 2000 },
});
