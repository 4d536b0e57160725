package main

import (
	"fmt"
	"net/http"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
)

// checkDiscovery reads every resource by aggregated and by legacy discovery;
// both must tell what was recorded.
func (s *suite) checkDiscovery() {
	s.kinds = map[schema.GroupVersionKind][]string{}
	log := &requestLog{}
	config := rest.CopyConfig(s.config)
	config.Wrap(log.wrap)
	client := discovery.NewDiscoveryClientForConfigOrDie(config)

	info, err := client.ServerVersion()
	if s.noError(err, "ServerVersion") {
		s.check(info.Major == "1" && info.Minor == "36", "ServerVersion is %s.%s", info.Major, info.Minor)
	}

	log.clear()
	groups, aggregated, err := client.ServerGroupsAndResources()
	if s.noError(err, "aggregated ServerGroupsAndResources") {
		s.check(len(log.seen()) == 2, "aggregated discovery took %d requests, not 2: %v", len(log.seen()), log.seen())
	}
	_, legacy, err := client.WithLegacy().ServerGroupsAndResources()
	s.noError(err, "legacy ServerGroupsAndResources")

	// Aggregated discovery has no storage version hash, and client-go gives
	// subresources the singular name of their parent.
	s.matchesRecorded("resources.tsv", resourceLines(legacy, true))
	want := s.recordedLines("resources.tsv")
	withoutHash := make([]string, len(want))
	for i, line := range want {
		withoutHash[i] = line[:strings.LastIndex(line, "\t")]
	}
	s.sameLines("aggregated resources", resourceLines(aggregated, false), withoutHash)

	order := []string{}
	for _, group := range groups {
		versions := []string{}
		for _, version := range group.Versions {
			versions = append(versions, version.Version)
		}
		order = append(order, fmt.Sprintf("%02d %q preferred %s of %s", len(order), group.Name,
			group.PreferredVersion.Version, strings.Join(versions, ",")))
	}
	s.matchesRecorded("groups.txt", order)

	preferred, err := client.ServerPreferredResources()
	s.noError(err, "ServerPreferredResources")
	names := []string{}
	for _, list := range preferred {
		for _, resource := range list.APIResources {
			names = append(names, list.GroupVersion+" "+resource.Name)
		}
	}
	s.matchesRecorded("preferred.txt", names)

	namespaced, err := client.ServerPreferredNamespacedResources()
	s.noError(err, "ServerPreferredNamespacedResources")
	s.check(len(namespaced) > 0, "no namespaced resources")

	for _, list := range legacy {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		s.noError(err, "group version "+list.GroupVersion)
		for _, resource := range list.APIResources {
			if !strings.Contains(resource.Name, "/") {
				s.kinds[gv.WithKind(resource.Kind)] = resource.Verbs
			}
		}
		one, err := client.ServerResourcesForGroupVersion(list.GroupVersion)
		if s.noError(err, "ServerResourcesForGroupVersion "+list.GroupVersion) {
			s.check(len(one.APIResources) == len(list.APIResources), "%s: %d resources, then %d",
				list.GroupVersion, len(list.APIResources), len(one.APIResources))
		}
	}
}

// resourceLines writes resources as the lines of resources.tsv.
func resourceLines(lists []*metav1.APIResourceList, withHash bool) []string {
	lines := []string{}
	for _, list := range lists {
		for _, r := range list.APIResources {
			scope := "Cluster"
			if r.Namespaced {
				scope = "Namespaced"
			}
			// Discovery leaves group and version out where they are the list's
			// own; the aggregated client fills them in.
			response := schema.GroupVersion{Group: r.Group, Version: r.Version}.String()
			if response == list.GroupVersion {
				response = ""
			}
			singular := r.SingularName
			if strings.Contains(r.Name, "/") {
				singular = ""
			}
			columns := []string{
				list.GroupVersion, r.Name, singular, scope, response, r.Kind,
				strings.Join(r.Verbs, ","), strings.Join(r.ShortNames, ","), strings.Join(r.Categories, ","),
			}
			if withHash {
				columns = append(columns, r.StorageVersionHash)
			}
			lines = append(lines, strings.Join(columns, "\t"))
		}
	}
	return lines
}

// requestLog notes the requests that reach the wire.
type requestLog struct {
	mu       sync.Mutex
	requests []string
}

func (l *requestLog) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		response, err := next.RoundTrip(request)
		if err == nil {
			l.mu.Lock()
			l.requests = append(l.requests, fmt.Sprintf("%d %s", response.StatusCode, request.URL.Path))
			l.mu.Unlock()
		}
		return response, err
	})
}

func (l *requestLog) seen() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string{}, l.requests...)
}

func (l *requestLog) clear() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.requests = nil
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }
