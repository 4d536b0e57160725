import { strings } from "../strings.js";
export const title = () => strings.app.views.server;
export async function show(root) {
  root.append(title());
  return () => {};
}
