package main

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	extensionsapply "k8s.io/apiextensions-apiserver/pkg/client/applyconfiguration/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	extensionsinformers "k8s.io/apiextensions-apiserver/pkg/client/informers/externalversions"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/scale"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/pager"
	"sigs.k8s.io/yaml"
)

func (s *suite) sails(version string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: s.group, Version: version, Resource: "sails"}
}

func (s *suite) dynamicSails() dynamic.ResourceInterface {
	return dynamic.NewForConfigOrDie(s.config).Resource(s.sails("v1")).Namespace(s.namespace)
}

// sail is a loose one; spec is its content.
func (s *suite) sail(name string, labels map[string]any, spec map[string]any) *unstructured.Unstructured {
	metadata := map[string]any{"name": name, "namespace": s.namespace}
	if labels != nil {
		metadata["labels"] = labels
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": s.group + "/v1", "kind": "Sail", "metadata": metadata, "spec": spec,
	}}
}

func (s *suite) mustCreateSail(name string, labels, spec map[string]any) *unstructured.Unstructured {
	made, err := s.dynamicSails().Create(s.ctx, s.sail(name, labels, spec), metav1.CreateOptions{})
	s.noError(err, "create "+name)
	return made
}

// definition reads one of the files that all suites share.
func (s *suite) definition(file string) *apiextensionsv1.CustomResourceDefinition {
	text, err := os.ReadFile(filepath.Join(s.definitions, file))
	s.noError(err, "read "+file)
	result := &apiextensionsv1.CustomResourceDefinition{}
	s.noError(yaml.UnmarshalStrict([]byte(strings.ReplaceAll(string(text), "NAMESPACE", s.namespace)), result), "decode "+file)
	return result
}

func isEstablished(definition *apiextensionsv1.CustomResourceDefinition) bool {
	return slices.ContainsFunc(definition.Status.Conditions, func(condition apiextensionsv1.CustomResourceDefinitionCondition) bool {
		return condition.Type == apiextensionsv1.Established && condition.Status == apiextensionsv1.ConditionTrue
	})
}

// served waits for discovery, in which a real server is a moment late.
func (s *suite) served(version string, resources ...string) bool {
	client := discovery.NewDiscoveryClientForConfigOrDie(s.config)
	return s.eventually(fmt.Sprintf("%s: %v", version, resources), func() bool {
		list, err := client.ServerResourcesForGroupVersion(s.group + "/" + version)
		if err != nil {
			return len(resources) == 0 && apierrors.IsNotFound(err)
		}
		found := []string{}
		for _, resource := range list.APIResources {
			found = append(found, resource.Name)
		}
		slices.Sort(found)
		return slices.Equal(found, resources)
	})
}

// checkDefinitions uses the clientset of definitions, whose requests and
// answers are protobuf.
func (s *suite) checkDefinitions() bool {
	client := clientset.NewForConfigOrDie(s.protobuf).ApiextensionsV1().CustomResourceDefinitions()
	plain := clientset.NewForConfigOrDie(s.config).ApiextensionsV1().CustomResourceDefinitions()
	seen := s.watchDefinitions()
	for _, file := range []string{"sails.yaml", "harbours.yaml"} {
		body := s.definition(file)
		made, err := client.Create(s.ctx, body, metav1.CreateOptions{})
		if !s.noError(err, file+": create") {
			return false
		}
		s.equal(file+": generation", made.Generation, 1)
		s.equal(file+": stored versions", made.Status.StoredVersions, []string{"v1"})
		s.check(apiequality.Semantic.DeepEqual(body.Spec.Versions, made.Spec.Versions), "%s: versions are not what was sent:\n  %v\n  %v", file, body.Spec.Versions, made.Spec.Versions)
		s.eventually(file+": established", func() bool {
			read, err := client.Get(s.ctx, body.Name, metav1.GetOptions{})
			return err == nil && isEstablished(read)
		})
		read, err := client.Get(s.ctx, body.Name, metav1.GetOptions{})
		s.noError(err, file+": get")
		asJSON, err := plain.Get(s.ctx, body.Name, metav1.GetOptions{})
		if s.noError(err, file+": get as JSON") {
			s.check(apiequality.Semantic.DeepEqual(asJSON, read), "%s is another as JSON:\n  %v\n  %v", file, asJSON, read)
		}
		_, err = client.Create(s.ctx, body, metav1.CreateOptions{})
		s.check(apierrors.IsAlreadyExists(err), "%s: create again: %v", file, err)
	}
	_, err := client.Create(s.ctx, s.definition("broken.yaml"), metav1.CreateOptions{})
	s.check(apierrors.IsInvalid(err), "broken definition: %v", err)
	s.check(apierrors.HasStatusCause(err, metav1.CauseTypeFieldValueInvalid), "broken definition: %v", err)

	object := extensionsapply.JSONSchemaProps().WithType("object")
	oars := extensionsapply.CustomResourceDefinition("oars." + s.group).WithLabels(map[string]string{"origin": s.namespace}).
		WithSpec(extensionsapply.CustomResourceDefinitionSpec().WithGroup(s.group).WithScope(apiextensionsv1.NamespaceScoped).
			WithNames(extensionsapply.CustomResourceDefinitionNames().WithKind("Oar").WithPlural("oars")).
			WithVersions(extensionsapply.CustomResourceDefinitionVersion().WithName("v1").WithServed(true).WithStorage(true).
				WithSchema(extensionsapply.CustomResourceValidation().WithOpenAPIV3Schema(object))))
	applied, err := client.Apply(s.ctx, oars, metav1.ApplyOptions{FieldManager: "suite"})
	if s.noError(err, "apply a definition") {
		s.equal("applied definition", []any{applied.Spec.Names.Singular, applied.Spec.Names.ListKind, applied.Generation}, []any{"oar", "OarList", 1})
	}
	again, err := client.Apply(s.ctx, oars, metav1.ApplyOptions{FieldManager: "suite"})
	if s.noError(err, "apply a definition again") {
		s.equal("applied again", again.Generation, 1)
	}
	patched, err := client.Patch(s.ctx, "oars."+s.group, types.StrategicMergePatchType, []byte(`{"metadata":{"labels":{"patched":"yes"}}}`), metav1.PatchOptions{})
	if s.noError(err, "strategic patch of a definition") {
		s.equal("patched definition", patched.Labels["patched"], "yes")
	}
	list, err := client.List(s.ctx, metav1.ListOptions{LabelSelector: "origin=" + s.namespace})
	if s.noError(err, "list definitions") {
		s.equal("definitions", len(list.Items), 3)
	}
	s.eventually("oars established", func() bool {
		read, err := client.Get(s.ctx, "oars."+s.group, metav1.GetOptions{})
		return err == nil && isEstablished(read)
	})
	s.noError(client.Delete(s.ctx, "oars."+s.group, metav1.DeleteOptions{}), "delete a definition")
	s.eventually("oars gone", func() bool {
		_, err := client.Get(s.ctx, "oars."+s.group, metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
	if seen != nil {
		s.eventually("informer of definitions", func() bool {
			return seen("add sails."+s.group, "add harbours."+s.group, "add oars."+s.group, "delete oars."+s.group)
		})
	}
	return s.served("v1", "harbours", "sails", "sails/scale", "sails/status") && s.served("v1beta1", "sails")
}

// watchDefinitions runs an informer of definitions; the answer says whether it
// has seen additions and deletions, in this order.
func (s *suite) watchDefinitions() func(lines ...string) bool {
	factory := extensionsinformers.NewSharedInformerFactoryWithOptions(clientset.NewForConfigOrDie(s.protobuf), time.Hour,
		extensionsinformers.WithTweakListOptions(func(options *metav1.ListOptions) { options.LabelSelector = "origin=" + s.namespace }))
	informer := factory.Apiextensions().V1().CustomResourceDefinitions().Informer()
	seen := &journal{}
	handler := seen.handler()
	handler.UpdateFunc = nil
	_, err := informer.AddEventHandler(handler)
	s.noError(err, "definitions: handler")
	factory.Start(s.ctx.Done())
	waiting, stop := context.WithTimeout(s.ctx, patience)
	defer stop()
	if !s.check(cache.WaitForCacheSync(waiting.Done(), informer.HasSynced), "definitions: no sync") {
		return nil
	}
	return seen.has
}

// checkCustomDiscovery finds the resources by kind, short name and version.
func (s *suite) checkCustomDiscovery() {
	client := discovery.NewDiscoveryClientForConfigOrDie(s.config)
	// Aggregated and unaggregated discovery may be a moment apart.
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(client))
	var mapping *meta.RESTMapping
	s.eventually("mapping", func() bool {
		var err error
		mapper.Reset()
		mapping, err = mapper.RESTMapping(schema.GroupKind{Group: s.group, Kind: "Sail"})
		return err == nil
	})
	if mapping != nil {
		s.equal("mapping", mapping.Resource, s.sails("v1"))
		s.equal("mapping scope", mapping.Scope.Name(), meta.RESTScopeNameNamespace)
	}
	mapping, err := mapper.RESTMapping(schema.GroupKind{Group: s.group, Kind: "Sail"}, "v1beta1")
	if s.noError(err, "mapping of a version") {
		s.equal("mapping of a version", mapping.Resource, s.sails("v1beta1"))
	}
	_, err = mapper.RESTMapping(schema.GroupKind{Group: s.group, Kind: "Sail"}, "v1alpha1")
	s.check(meta.IsNoMatchError(err), "mapping of a version that is not served: %v", err)
	mapping, err = mapper.RESTMapping(schema.GroupKind{Group: s.group, Kind: "Harbour"})
	if s.noError(err, "mapping of harbours") {
		s.equal("scope of harbours", mapping.Scope.Name(), meta.RESTScopeNameRoot)
	}
	expander := restmapper.NewShortcutExpander(mapper, client, nil)
	kind, err := expander.KindFor(schema.GroupVersionResource{Group: s.group, Resource: "cloth"})
	if s.noError(err, "short name") {
		s.equal("short name", kind.Kind, "Sail")
	}
	groups, err := restmapper.GetAPIGroupResources(client)
	if s.noError(err, "group resources") {
		index := slices.IndexFunc(groups, func(group *restmapper.APIGroupResources) bool { return group.Group.Name == s.group })
		if s.check(index >= 0, "group %s is not discovered", s.group) {
			s.equal("preferred version", groups[index].Group.PreferredVersion.Version, "v1")
		}
	}
	// Aggregated discovery has no hash.
	list, err := client.ServerResourcesForGroupVersion(s.group + "/v1")
	if s.noError(err, "resources") {
		index := slices.IndexFunc(list.APIResources, func(resource metav1.APIResource) bool { return resource.Name == "sails" })
		if s.check(index >= 0, "sails are not discovered") {
			resource := list.APIResources[index]
			sum := sha256.Sum256([]byte(s.group + "/v1/Sail"))
			s.equal("storage version hash", resource.StorageVersionHash, base64.StdEncoding.EncodeToString(sum[:8]))
			s.equal("categories", resource.Categories, []string{"rigging", "all"})
			s.equal("verbs", resource.Verbs, []string{"delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"})
		}
	}
	preferred, err := client.ServerPreferredNamespacedResources()
	if s.noError(err, "preferred resources") {
		s.check(slices.ContainsFunc(preferred, func(list *metav1.APIResourceList) bool { return list.GroupVersion == s.group+"/v1" }), "preferred resources lack %s", s.group)
	}
	s.eventually("OpenAPI v3", func() bool {
		paths, err := client.OpenAPIV3().Paths()
		if err != nil || paths["apis/"+s.group+"/v1"] == nil {
			return false
		}
		text, err := paths["apis/"+s.group+"/v1"].Schema(runtime.ContentTypeJSON)
		return err == nil && strings.Contains(string(text), `"kind":"Sail"`)
	})
	s.eventually("OpenAPI v2", func() bool {
		document, err := client.OpenAPISchema()
		if err != nil {
			return false
		}
		for _, definition := range document.GetDefinitions().GetAdditionalProperties() {
			if strings.HasSuffix(definition.GetName(), s.namespace+".v1.Sail") {
				return true
			}
		}
		return false
	})
}

func (s *suite) checkCustomDynamic() {
	client := s.dynamicSails()
	made, err := client.Create(s.ctx, s.sail("dynamic", map[string]any{"dynamic": "yes"}, map[string]any{
		"area": int64(5), "weight": int64(3), "battens": []any{1.5, int64(2)}, "opening": int64(7),
		"reefs": []any{map[string]any{"name": "a", "knots": int64(1)}}, "settings": map[string]any{"any": "thing"},
	}), metav1.CreateOptions{})
	if !s.noError(err, "dynamic create") {
		return
	}
	s.equal("pruned and defaulted", made.Object["spec"], map[string]any{
		"area": 5, "battens": []any{1.5, 2}, "colour": "white", "opening": 7, "replicas": 1,
		"reefs": []any{map[string]any{"depth": 1, "name": "a"}}, "settings": map[string]any{"any": "thing"},
	})
	s.equal("generation", made.GetGeneration(), 1)
	_, err = client.Create(s.ctx, s.sail("strict", nil, map[string]any{"area": int64(5), "weight": int64(3)}), metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
	s.check(apierrors.IsBadRequest(err) && strings.Contains(err.Error(), `unknown field "spec.weight"`), "strict: %v", err)
	for what, spec := range map[string]map[string]any{
		"required": {}, "type": {"area": "x"}, "range": {"area": int64(0)}, "enum": {"area": int64(1), "colour": "blue"},
		"rule": {"area": int64(2000), "colour": "red"}, "set": {"area": int64(1), "tags": []any{"a", "a"}},
	} {
		_, err = client.Create(s.ctx, s.sail("invalid", nil, spec), metav1.CreateOptions{})
		s.check(apierrors.IsInvalid(err), "%s: %v", what, err)
	}
	_, err = client.Create(s.ctx, s.sail("dynamic", nil, map[string]any{"area": int64(1)}), metav1.CreateOptions{})
	s.check(apierrors.IsAlreadyExists(err), "create again: %v", err)

	changed := made.DeepCopy()
	s.noError(unstructured.SetNestedField(changed.Object, int64(6), "spec", "area"), "set field")
	updated, err := client.Update(s.ctx, changed, metav1.UpdateOptions{})
	if s.noError(err, "dynamic update") {
		s.equal("generation after update", updated.GetGeneration(), 2)
	}
	_, err = client.Update(s.ctx, changed, metav1.UpdateOptions{})
	s.check(apierrors.IsConflict(err), "stale update: %v", err)
	labelled := updated.DeepCopy()
	labelled.SetLabels(map[string]string{"dynamic": "yes", "more": "yes"})
	updated, err = client.Update(s.ctx, labelled, metav1.UpdateOptions{})
	if s.noError(err, "update of labels") {
		s.equal("generation after labels", updated.GetGeneration(), 2)
	}
	updated.SetResourceVersion("")
	_, err = client.Update(s.ctx, updated, metav1.UpdateOptions{})
	s.check(apierrors.IsInvalid(err), "update without a version: %v", err)
	list, err := client.List(s.ctx, metav1.ListOptions{LabelSelector: "more=yes"})
	if s.noError(err, "dynamic list") && s.equal("dynamic list", len(list.Items), 1) {
		s.equal("kinds", []any{list.GetKind(), list.Items[0].GetKind(), list.GetAPIVersion()}, []any{"SailList", "Sail", s.group + "/v1"})
	}
	old := dynamic.NewForConfigOrDie(s.config).Resource(s.sails("v1beta1")).Namespace(s.namespace)
	converted, err := old.Get(s.ctx, "dynamic", metav1.GetOptions{})
	if s.noError(err, "get in the other version") {
		s.equal("other version", []any{converted.GetAPIVersion(), converted.GetUID()}, []any{s.group + "/v1beta1", made.GetUID()})
	}
	s.noError(client.Delete(s.ctx, "dynamic", metav1.DeleteOptions{}), "dynamic delete")
	_, err = client.Get(s.ctx, "dynamic", metav1.GetOptions{})
	s.check(apierrors.IsNotFound(err), "get deleted: %v", err)
	_, err = dynamic.NewForConfigOrDie(s.config).Resource(s.sails("v1alpha1")).Namespace(s.namespace).List(s.ctx, metav1.ListOptions{})
	s.check(apierrors.IsNotFound(err), "a version that is not served: %v", err)

	warnings := &journal{}
	config := rest.CopyConfig(s.config)
	config.WarningHandler = warner{warnings}
	loud := dynamic.NewForConfigOrDie(config).Resource(s.sails("v1beta1")).Namespace(s.namespace)
	_, err = loud.List(s.ctx, metav1.ListOptions{})
	s.noError(err, "list in the deprecated version")
	s.check(warnings.has("299 v1beta1 sails are torn; take v1"), "warnings: %v", warnings.lines)
}

// warner keeps the warnings of a server.
type warner struct{ seen *journal }

func (w warner) HandleWarningHeader(code int, _ string, text string) {
	w.seen.add(fmt.Sprintf("%d %s", code, text))
}

// checkCustomChanges patches and applies.
func (s *suite) checkCustomChanges() {
	client := s.dynamicSails()
	s.mustCreateSail("patched", nil, map[string]any{"area": int64(5), "tags": []any{"a"}})
	patched, err := client.Patch(s.ctx, "patched", types.MergePatchType, []byte(`{"spec":{"marks":{"x":"1"},"tags":["b"]}}`), metav1.PatchOptions{})
	if s.noError(err, "merge patch") {
		s.equal("merge patch", patched.Object["spec"].(map[string]any)["tags"], []any{"b"})
	}
	patched, err = client.Patch(s.ctx, "patched", types.JSONPatchType, []byte(`[{"op":"add","path":"/spec/tags/0","value":"c"}]`), metav1.PatchOptions{})
	if s.noError(err, "JSON patch") {
		s.equal("JSON patch", patched.Object["spec"].(map[string]any)["tags"], []any{"c", "b"})
	}
	_, err = client.Patch(s.ctx, "patched", types.StrategicMergePatchType, []byte(`{"spec":{}}`), metav1.PatchOptions{})
	s.check(apierrors.IsUnsupportedMediaType(err), "strategic patch: %v", err)
	_, err = client.Patch(s.ctx, "patched", types.MergePatchType, []byte(`{"spec":{"area":0}}`), metav1.PatchOptions{})
	s.check(apierrors.IsInvalid(err), "invalid patch: %v", err)

	mine, theirs := metav1.ApplyOptions{FieldManager: "mine"}, metav1.ApplyOptions{FieldManager: "theirs"}
	body := func(spec map[string]any) *unstructured.Unstructured { return s.sail("applied", nil, spec) }
	reef := func(name string, depth int64) any { return map[string]any{"name": name, "depth": depth} }
	applied, err := client.Apply(s.ctx, "applied", body(map[string]any{"area": int64(5), "reefs": []any{reef("a", 2)}}), mine)
	if !s.noError(err, "apply") {
		return
	}
	again, err := client.Apply(s.ctx, "applied", body(map[string]any{"area": int64(5), "reefs": []any{reef("a", 2)}}), mine)
	if s.noError(err, "apply again") {
		s.equal("nothing new", again.GetResourceVersion(), applied.GetResourceVersion())
	}
	both, err := client.Apply(s.ctx, "applied", body(map[string]any{"reefs": []any{reef("b", 3)}}), theirs)
	if s.noError(err, "apply another key") {
		s.equal("merged by key", both.Object["spec"].(map[string]any)["reefs"], []any{reef("a", 2), reef("b", 3)})
	}
	_, err = client.Apply(s.ctx, "applied", body(map[string]any{"reefs": []any{reef("a", 4)}}), theirs)
	s.check(apierrors.IsConflict(err) && apierrors.HasStatusCause(err, metav1.CauseTypeFieldManagerConflict), "conflict: %v", err)
	theirs.Force = true
	forced, err := client.Apply(s.ctx, "applied", body(map[string]any{"reefs": []any{reef("a", 4)}}), theirs)
	if s.noError(err, "force") {
		s.equal("forced", forced.Object["spec"].(map[string]any)["reefs"], []any{reef("a", 4)})
	}
	status := s.sail("applied", nil, nil)
	delete(status.Object, "spec")
	status.Object["status"] = map[string]any{"conditions": []any{map[string]any{"type": "Ready", "status": "True"}}}
	shown, err := client.ApplyStatus(s.ctx, "applied", status, metav1.ApplyOptions{FieldManager: "controller"})
	if s.noError(err, "apply a status") {
		entry := slices.IndexFunc(shown.GetManagedFields(), func(entry metav1.ManagedFieldsEntry) bool { return entry.Manager == "controller" })
		if s.check(entry >= 0, "no manager of the status: %v", shown.GetManagedFields()) {
			s.equal("managed subresource", shown.GetManagedFields()[entry].Subresource, "status")
			s.equal("managed fields", string(shown.GetManagedFields()[entry].FieldsV1.Raw),
				`{"f:status":{"f:conditions":{"k:{\"type\":\"Ready\"}":{".":{},"f:status":{},"f:type":{}}}}}`)
		}
	}
	_, err = client.Apply(s.ctx, "applied", body(map[string]any{"weight": int64(1)}), mine)
	s.check(err != nil, "an unknown field was applied")
	for _, name := range []string{"patched", "applied"} {
		s.noError(client.Delete(s.ctx, name, metav1.DeleteOptions{}), "delete "+name)
	}
}

// checkCustomSubresources writes status and scale, the latter also with the
// client of autoscalers, in protobuf.
func (s *suite) checkCustomSubresources() {
	client := s.dynamicSails()
	made := s.mustCreateSail("sub", nil, map[string]any{"area": int64(5), "replicas": int64(3)})
	made.Object["status"] = map[string]any{"replicas": int64(2), "selector": "mast=sub"}
	made.Object["spec"].(map[string]any)["area"] = int64(9)
	shown, err := client.UpdateStatus(s.ctx, made, metav1.UpdateOptions{})
	if s.noError(err, "update status") {
		s.equal("only the status", []any{shown.Object["spec"].(map[string]any)["area"], shown.GetGeneration()}, []any{5, 1})
	}
	loose, err := client.Get(s.ctx, "sub", metav1.GetOptions{}, "scale")
	if s.noError(err, "loose scale") {
		s.equal("loose scale", []any{loose.GetKind(), loose.GetAPIVersion()}, []any{"Scale", "autoscaling/v1"})
		s.noError(unstructured.SetNestedField(loose.Object, int64(4), "spec", "replicas"), "set replicas")
		_, err = client.Update(s.ctx, loose, metav1.UpdateOptions{}, "scale")
		s.noError(err, "update of a loose scale")
	}

	finder := memory.NewMemCacheClient(discovery.NewDiscoveryClientForConfigOrDie(s.config))
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(finder)
	scales, err := scale.NewForConfig(s.protobuf, mapper, dynamic.LegacyAPIPathResolverFunc, scale.NewDiscoveryScaleKindResolver(finder))
	if !s.noError(err, "scale client") {
		return
	}
	resource := schema.GroupResource{Group: s.group, Resource: "sails"}
	read, err := scales.Scales(s.namespace).Get(s.ctx, resource, "sub", metav1.GetOptions{})
	if !s.noError(err, "scale") {
		return
	}
	s.equal("scale", []any{read.Spec.Replicas, read.Status.Replicas, read.Status.Selector}, []any{4, 2, "mast=sub"})
	read.Spec.Replicas = 6
	read, err = scales.Scales(s.namespace).Update(s.ctx, resource, read, metav1.UpdateOptions{})
	if s.noError(err, "update of a scale") {
		s.equal("update of a scale", read.Spec.Replicas, 6)
	}
	read, err = scales.Scales(s.namespace).Patch(s.ctx, s.sails("v1"), "sub", types.MergePatchType, []byte(`{"spec":{"replicas":7}}`), metav1.PatchOptions{})
	if s.noError(err, "patch of a scale") {
		s.equal("patch of a scale", read.Spec.Replicas, 7)
	}
	last, err := client.Get(s.ctx, "sub", metav1.GetOptions{})
	if s.noError(err, "scaled") {
		s.equal("scaled", []any{last.Object["spec"].(map[string]any)["replicas"], last.GetGeneration()}, []any{7, 4})
	}
	_, err = client.Get(s.ctx, "sub", metav1.GetOptions{}, "finalize")
	s.check(apierrors.IsNotFound(err), "a subresource that is not there: %v", err)
	s.noError(client.Delete(s.ctx, "sub", metav1.DeleteOptions{}), "delete sub")
}

// checkCustomMetadata reads partial objects, which are protobuf even of
// resources that are not.
func (s *suite) checkCustomMetadata() {
	made := s.mustCreateSail("metadata", map[string]any{"meta": "yes"}, map[string]any{"area": int64(1)})
	client := metadata.NewForConfigOrDie(s.protobuf).Resource(s.sails("v1")).Namespace(s.namespace)
	read, err := client.Get(s.ctx, "metadata", metav1.GetOptions{})
	if s.noError(err, "metadata get") {
		s.equal("metadata", []any{read.UID, read.Generation}, []any{made.GetUID(), 1})
	}
	list, err := client.List(s.ctx, metav1.ListOptions{LabelSelector: "meta=yes"})
	if s.noError(err, "metadata list") {
		s.equal("metadata list", len(list.Items), 1)
	}
	patched, err := client.Patch(s.ctx, "metadata", types.MergePatchType, []byte(`{"metadata":{"labels":{"more":"yes"}}}`), metav1.PatchOptions{})
	if s.noError(err, "metadata patch") {
		s.equal("metadata patch", patched.Labels["more"], "yes")
	}

	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	factory := metadatainformer.NewFilteredSharedInformerFactory(metadata.NewForConfigOrDie(s.protobuf), time.Hour, s.namespace,
		func(options *metav1.ListOptions) { options.LabelSelector = "meta=yes" })
	informer := factory.ForResource(s.sails("v1")).Informer()
	seen := &journal{}
	_, err = informer.AddEventHandler(seen.handler())
	s.noError(err, "metadata informer: handler")
	factory.Start(ctx.Done())
	s.eventually("metadata informer: first state", func() bool { return seen.has("add metadata") })
	s.noError(client.Delete(s.ctx, "metadata", metav1.DeleteOptions{}), "metadata delete")
	s.eventually("metadata informer: events", func() bool { return seen.has("add metadata", "delete metadata") })
}

func (s *suite) checkCustomSelectors() {
	client := s.dynamicSails()
	for i, colour := range []string{"red", "white", "red", "tanned", "white"} {
		s.mustCreateSail(fmt.Sprintf("page-%d", i), map[string]any{"paged": "yes"}, map[string]any{"area": int64(i + 1), "colour": colour, "reefed": i == 2})
	}
	names := func(options metav1.ListOptions) []string {
		list, err := client.List(s.ctx, options)
		if !s.noError(err, "list "+options.FieldSelector) {
			return nil
		}
		result := []string{}
		for _, item := range list.Items {
			result = append(result, item.GetName())
		}
		return result
	}
	for selector, want := range map[string][]string{
		"spec.colour=red":                 {"page-0", "page-2"},
		"spec.colour!=red,spec.area=4":    {"page-3"},
		"spec.reefed=true":                {"page-2"},
		"metadata.name=page-4":            {"page-4"},
		"spec.colour=red,spec.reefed!=no": {"page-0", "page-2"},
	} {
		s.equal(selector, names(metav1.ListOptions{FieldSelector: selector}), want)
	}
	_, err := client.List(s.ctx, metav1.ListOptions{FieldSelector: "spec.material=flax"})
	s.check(apierrors.IsBadRequest(err), "a field that is not selectable: %v", err)
	requests, items := 0, []string{}
	pages := pager.New(func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		requests++
		return client.List(ctx, options)
	})
	pages.PageSize = 2
	err = pages.EachListItem(s.ctx, metav1.ListOptions{LabelSelector: "paged=yes"}, func(item runtime.Object) error {
		items = append(items, item.(*unstructured.Unstructured).GetName())
		return nil
	})
	s.noError(err, "pager")
	s.equal("pager", []any{items, requests}, []any{[]string{"page-0", "page-1", "page-2", "page-3", "page-4"}, 3})
	s.noError(client.DeleteCollection(s.ctx, metav1.DeleteOptions{}, metav1.ListOptions{FieldSelector: "spec.colour=red"}), "delete collection")
	s.equal("delete collection by field", names(metav1.ListOptions{LabelSelector: "paged"}), []string{"page-1", "page-3", "page-4"})
	s.noError(client.DeleteCollection(s.ctx, metav1.DeleteOptions{}, metav1.ListOptions{}), "delete collection")
	s.equal("delete collection", names(metav1.ListOptions{}), []string{})
}

// checkCustomWatch follows one object, with a selector that it leaves.
func (s *suite) checkCustomWatch() {
	client := s.dynamicSails()
	list, err := client.List(s.ctx, metav1.ListOptions{})
	if !s.noError(err, "list before watch") {
		return
	}
	all, err := client.Watch(s.ctx, metav1.ListOptions{ResourceVersion: list.GetResourceVersion(), AllowWatchBookmarks: true, LabelSelector: "life=yes"})
	if !s.noError(err, "watch") {
		return
	}
	defer all.Stop()
	red, err := client.Watch(s.ctx, metav1.ListOptions{ResourceVersion: list.GetResourceVersion(), FieldSelector: "spec.colour=red"})
	if !s.noError(err, "watch with a field") {
		return
	}
	defer red.Stop()
	s.mustCreateSail("life", map[string]any{"life": "yes"}, map[string]any{"area": int64(1), "colour": "red"})
	_, err = client.Patch(s.ctx, "life", types.MergePatchType, []byte(`{"spec":{"colour":"white"}}`), metav1.PatchOptions{})
	s.noError(err, "patch watched")
	s.noError(client.Delete(s.ctx, "life", metav1.DeleteOptions{}), "delete watched")
	for _, want := range []watch.EventType{watch.Added, watch.Modified, watch.Deleted} {
		event, _ := s.next(all)
		s.equal("event", event.Type, want)
	}
	for _, want := range []watch.EventType{watch.Added, watch.Deleted} {
		event, _ := s.next(red)
		s.equal("event of a field", event.Type, want)
	}
}

func (s *suite) checkCustomInformer() {
	s.mustCreateSail("informed-0", map[string]any{"informed": "yes"}, map[string]any{"area": int64(1)})
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	factory := dynamicinformer.NewFilteredDynamicSharedInformerFactory(dynamic.NewForConfigOrDie(s.config), time.Hour, s.namespace,
		func(options *metav1.ListOptions) { options.LabelSelector = "informed=yes" })
	informer := factory.ForResource(s.sails("v1"))
	seen := &journal{}
	_, err := informer.Informer().AddEventHandler(seen.handler())
	s.noError(err, "informer: handler")
	factory.Start(ctx.Done())
	waiting, stop := context.WithTimeout(ctx, patience)
	defer stop()
	if !s.check(cache.WaitForCacheSync(waiting.Done(), informer.Informer().HasSynced), "informer: no sync") {
		return
	}
	made := s.mustCreateSail("informed-1", map[string]any{"informed": "yes"}, map[string]any{"area": int64(1)})
	s.noError(unstructured.SetNestedField(made.Object, int64(2), "spec", "area"), "set field")
	_, err = s.dynamicSails().Update(s.ctx, made, metav1.UpdateOptions{})
	s.noError(err, "informer: update")
	s.noError(s.dynamicSails().Delete(s.ctx, "informed-0", metav1.DeleteOptions{}), "informer: delete")
	s.eventually("informer: events", func() bool {
		return seen.has("add informed-0", "add informed-1", "update informed-1", "delete informed-0")
	})
	object, err := informer.Lister().ByNamespace(s.namespace).Get("informed-1")
	if s.noError(err, "informer: lister") {
		area, _, _ := unstructured.NestedInt64(object.(*unstructured.Unstructured).Object, "spec", "area")
		s.equal("informer: cached", area, 2)
	}
	s.noError(s.dynamicSails().Delete(s.ctx, "informed-1", metav1.DeleteOptions{}), "informer: clean up")
}

// checkChangedDefinition changes a definition under an open watch.
func (s *suite) checkChangedDefinition() {
	client := clientset.NewForConfigOrDie(s.protobuf).ApiextensionsV1().CustomResourceDefinitions()
	s.mustCreateSail("early", nil, map[string]any{"area": int64(5)})
	current, err := client.Get(s.ctx, "sails."+s.group, metav1.GetOptions{})
	if !s.noError(err, "definition") {
		return
	}
	current.Spec = s.definition("sails-changed.yaml").Spec
	changed, err := client.Update(s.ctx, current, metav1.UpdateOptions{})
	if !s.noError(err, "change the definition") {
		return
	}
	s.equal("generation of the definition", changed.Generation, 2)
	s.served("v2", "sails")
	s.served("v1beta1")
	s.eventually("a new field", func() bool {
		made, err := s.dynamicSails().Create(s.ctx, s.sail("weighed", nil, map[string]any{"area": int64(5), "weight": int64(7)}), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err == nil && made.Object["spec"].(map[string]any)["weight"] == int64(7)
	})
	later := dynamic.NewForConfigOrDie(s.config).Resource(s.sails("v2")).Namespace(s.namespace)
	read, err := later.Get(s.ctx, "early", metav1.GetOptions{})
	if s.noError(err, "get in the new version") {
		s.equal("no default of a version that is not stored", read.Object["spec"], map[string]any{"area": 5})
	}
	body := s.sail("late", nil, map[string]any{"area": int64(6)})
	body.SetAPIVersion(s.group + "/v2")
	made, err := later.Create(s.ctx, body, metav1.CreateOptions{})
	if s.noError(err, "create in the new version") {
		s.equal("default of the version asked", made.Object["spec"], map[string]any{"area": 6, "shape": "triangle"})
	}
	current.Spec.Scope = apiextensionsv1.ClusterScoped
	current.ResourceVersion = changed.ResourceVersion
	_, err = client.Update(s.ctx, current, metav1.UpdateOptions{})
	s.check(apierrors.IsInvalid(err) || apierrors.IsConflict(err), "another scope: %v", err)
	held := s.sail("held", nil, map[string]any{"area": int64(1)})
	held.SetFinalizers([]string{"example.com/hold"})
	_, err = s.dynamicSails().Create(s.ctx, held, metav1.CreateOptions{})
	s.noError(err, "create held")
}

// removeDefinitions lets an object hold its definition for a while.
func (s *suite) removeDefinitions() {
	client := clientset.NewForConfigOrDie(s.protobuf).ApiextensionsV1().CustomResourceDefinitions()
	for _, name := range []string{"sails." + s.group, "harbours." + s.group} {
		s.noError(client.Delete(s.ctx, name, metav1.DeleteOptions{}), "delete "+name)
		if name == "sails."+s.group {
			s.eventually("held: being deleted", func() bool {
				held, err := s.dynamicSails().Get(s.ctx, "held", metav1.GetOptions{})
				return err == nil && held.GetDeletionTimestamp() != nil
			})
			read, err := client.Get(s.ctx, name, metav1.GetOptions{})
			if s.noError(err, "definition of held") {
				s.check(read.DeletionTimestamp != nil && slices.Contains(read.Finalizers, apiextensionsv1.CustomResourceCleanupFinalizer), "finalizers: %v", read.Finalizers)
			}
			_, err = s.dynamicSails().Patch(s.ctx, "held", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
			s.noError(err, "let go")
		}
		s.eventually(name+" gone", func() bool {
			_, err := client.Get(s.ctx, name, metav1.GetOptions{})
			return apierrors.IsNotFound(err)
		})
	}
	s.served("v1")
	_, err := s.dynamicSails().List(s.ctx, metav1.ListOptions{})
	s.check(apierrors.IsNotFound(err), "list without a definition: %v", err)
}
