import { strings } from "../strings.js";
export const title = () => strings.app.views.kustomize;
export async function show(root) {
  root.append(title());
  return () => {};
}
