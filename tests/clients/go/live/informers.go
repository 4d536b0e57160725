package main

import (
	"context"
	"os"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/tools/record"
)

// journal keeps what handlers were told, in order.
type journal struct {
	sync.Mutex
	lines []string
}

func (j *journal) add(line string) {
	j.Lock()
	defer j.Unlock()
	j.lines = append(j.lines, line)
}

func (j *journal) has(lines ...string) bool {
	j.Lock()
	defer j.Unlock()
	return slices.Equal(j.lines, lines)
}

func (j *journal) handler() cache.ResourceEventHandlerFuncs {
	name := func(object any) string {
		if last, ok := object.(cache.DeletedFinalStateUnknown); ok {
			object = last.Obj
		}
		accessor, err := meta.Accessor(object)
		if err != nil {
			return err.Error()
		}
		return accessor.GetName()
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(object any) { j.add("add " + name(object)) },
		UpdateFunc: func(old, object any) {
			a, errA := meta.Accessor(old)
			b, errB := meta.Accessor(object)
			// A relist repeats what is known; that is no change.
			if errA == nil && errB == nil && a.GetResourceVersion() != b.GetResourceVersion() {
				j.add("update " + name(object))
			}
		},
		DeleteFunc: func(object any) { j.add("delete " + name(object)) },
	}
}

// checkInformers runs a SharedInformerFactory; whether its reflectors list and
// watch or only watch is a matter of KUBE_FEATURE_WatchListClient, with which
// the suite is run both ways.
func (s *suite) checkInformers() {
	how := "informer, WatchListClient=" + os.Getenv("KUBE_FEATURE_WatchListClient")
	s.mustCreate("informed-0", map[string]string{"informed": "yes"})
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	factory := informers.NewSharedInformerFactoryWithOptions(s.client, time.Hour,
		informers.WithNamespace(s.namespace),
		informers.WithTweakListOptions(func(options *metav1.ListOptions) { options.LabelSelector = "informed=yes" }))
	informer := factory.Core().V1().ConfigMaps()
	seen := &journal{}
	_, err := informer.Informer().AddEventHandler(seen.handler())
	s.noError(err, how+": handler")
	others := []cache.InformerSynced{
		factory.Core().V1().Pods().Informer().HasSynced,
		factory.Apps().V1().Deployments().Informer().HasSynced,
		factory.Coordination().V1().Leases().Informer().HasSynced,
	}
	factory.Start(ctx.Done())
	waiting, stop := context.WithTimeout(ctx, patience)
	defer stop()
	if !s.check(cache.WaitForCacheSync(waiting.Done(), append(others, informer.Informer().HasSynced)...), "%s: no sync in %s", how, patience) {
		return
	}
	s.eventually(how+": initial object", func() bool { return seen.has("add informed-0") })
	made := s.mustCreate("informed-1", map[string]string{"informed": "yes"})
	s.mustCreate("uninformed", nil)
	made.Data["key"] = "changed"
	maps := s.client.CoreV1().ConfigMaps(s.namespace)
	_, err = maps.Update(s.ctx, made, metav1.UpdateOptions{})
	s.noError(err, how+": update")
	s.noError(maps.Delete(s.ctx, "informed-0", metav1.DeleteOptions{}), how+": delete")
	s.eventually(how+": events", func() bool {
		return seen.has("add informed-0", "add informed-1", "update informed-1", "delete informed-0")
	})
	listed, err := informer.Lister().ConfigMaps(s.namespace).List(labels.Everything())
	if s.noError(err, how+": lister") && s.equal(how+": lister", len(listed), 1) {
		s.equal(how+": cached", listed[0].Data["key"], "changed")
	}
	_, err = informer.Lister().ConfigMaps(s.namespace).Get("informed-0")
	s.check(apierrors.IsNotFound(err), "%s: lister has a deleted object: %v", how, err)
	s.check(informer.Informer().LastSyncResourceVersion() != "", "%s: no version", how)
	s.noError(maps.Delete(s.ctx, "uninformed", metav1.DeleteOptions{}), how+": clean up")
	s.noError(maps.Delete(s.ctx, "informed-1", metav1.DeleteOptions{}), how+": clean up")
	cancel()
	factory.Shutdown()
}

func (s *suite) checkMetadataInformer() {
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	client := metadata.NewForConfigOrDie(s.protobuf)
	factory := metadatainformer.NewFilteredSharedInformerFactory(client, time.Hour, s.namespace,
		func(options *metav1.ListOptions) { options.LabelSelector = "partial=yes" })
	informer := factory.ForResource(configMaps).Informer()
	seen := &journal{}
	_, err := informer.AddEventHandler(seen.handler())
	s.noError(err, "metadata informer: handler")
	factory.Start(ctx.Done())
	waiting, stop := context.WithTimeout(ctx, patience)
	defer stop()
	if !s.check(cache.WaitForCacheSync(waiting.Done(), informer.HasSynced), "metadata informer: no sync") {
		return
	}
	s.mustCreate("partial", map[string]string{"partial": "yes"})
	s.noError(s.client.CoreV1().ConfigMaps(s.namespace).Delete(s.ctx, "partial", metav1.DeleteOptions{}), "delete partial")
	s.eventually("metadata informer: events", func() bool { return seen.has("add partial", "delete partial") })
}

func (s *suite) checkDeleteCollection() {
	maps := s.client.CoreV1().ConfigMaps(s.namespace)
	for _, name := range []string{"heap-a", "heap-b", "heap-c"} {
		s.mustCreate(name, map[string]string{"heap": name[5:]})
	}
	err := maps.DeleteCollection(s.ctx, metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}, metav1.ListOptions{LabelSelector: "heap"})
	s.noError(err, "delete collection, dry")
	count := func() int {
		list, err := maps.List(s.ctx, metav1.ListOptions{LabelSelector: "heap"})
		s.noError(err, "list heap")
		return len(list.Items)
	}
	s.equal("delete collection, dry", count(), 3)
	s.noError(maps.DeleteCollection(s.ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "heap in (a, b)"}), "delete collection")
	s.equal("delete collection by label", count(), 1)
	s.noError(maps.DeleteCollection(s.ctx, metav1.DeleteOptions{}, metav1.ListOptions{FieldSelector: "metadata.name=heap-c"}), "delete collection")
	s.equal("delete collection by field", count(), 0)
}

// checkLeaderElection lets a second candidate wait for the first to let go.
func (s *suite) checkLeaderElection() {
	led := &journal{}
	elect := func(identity string) (stop func(), stopped chan struct{}) {
		ctx, cancel := context.WithCancel(s.ctx)
		stopped = make(chan struct{})
		lock, err := resourcelock.New(resourcelock.LeasesResourceLock, s.namespace, "election",
			s.client.CoreV1(), s.client.CoordinationV1(), resourcelock.ResourceLockConfig{Identity: identity})
		s.noError(err, "lock")
		go func() {
			defer close(stopped)
			leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
				Lock: lock, LeaseDuration: 3 * time.Second, RenewDeadline: 2 * time.Second, RetryPeriod: 200 * time.Millisecond,
				ReleaseOnCancel: true,
				Callbacks: leaderelection.LeaderCallbacks{
					OnStartedLeading: func(context.Context) { led.add(identity + " leads") },
					OnStoppedLeading: func() { led.add(identity + " stopped") },
				},
			})
		}()
		return cancel, stopped
	}
	stopFirst, firstStopped := elect("first")
	defer stopFirst()
	s.eventually("election: first", func() bool { return led.has("first leads") })
	stopSecond, secondStopped := elect("second")
	defer stopSecond()
	time.Sleep(500 * time.Millisecond)
	s.check(led.has("first leads"), "election: two leaders: %v", led.lines)
	stopFirst()
	<-firstStopped
	s.eventually("election: second", func() bool {
		led.Lock()
		defer led.Unlock()
		return slices.Contains(led.lines, "second leads")
	})
	lease, err := s.client.CoordinationV1().Leases(s.namespace).Get(s.ctx, "election", metav1.GetOptions{})
	if s.noError(err, "election: lease") && s.check(lease.Spec.HolderIdentity != nil && lease.Spec.LeaseTransitions != nil, "election: %v", lease.Spec) {
		s.equal("election: holder", *lease.Spec.HolderIdentity, "second")
		s.check(lease.Spec.RenewTime != nil && time.Since(lease.Spec.RenewTime.Time) < patience, "election: renewed %v", lease.Spec.RenewTime)
	}
	stopSecond()
	<-secondStopped
}

// checkEvents records with both recorders. Repeated events are patched, which
// is no part of this suite, so every one here is another.
func (s *suite) checkEvents() {
	subject := s.mustCreate("subject", nil)
	old := record.NewBroadcaster()
	defer old.Shutdown()
	old.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: s.client.CoreV1().Events(s.namespace)})
	old.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "suite"}).Event(subject, corev1.EventTypeNormal, "Old", "an old event")

	recent := events.NewBroadcaster(&events.EventSinkImpl{Interface: s.client.EventsV1()})
	defer recent.Shutdown()
	s.noError(recent.StartRecordingToSinkWithContext(s.ctx), "events: recording")
	recent.NewRecorder(scheme.Scheme, "example.com/suite").Eventf(subject, nil, corev1.EventTypeWarning, "Recent", "Testing", "a recent %s", "event")

	var list *corev1.EventList
	s.eventually("events: both arrive", func() bool {
		var err error
		list, err = s.client.CoreV1().Events(s.namespace).List(s.ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=subject"})
		return err == nil && len(list.Items) == 2
	})
	for _, event := range list.Items {
		s.equal("event: subject", event.InvolvedObject.UID, subject.UID)
		s.check(event.Reason == "Old" || event.Reason == "Recent", "event: reason %s", event.Reason)
	}
	recentList, err := s.client.EventsV1().Events(s.namespace).List(s.ctx, metav1.ListOptions{FieldSelector: "reason=Recent,type=Warning"})
	if s.noError(err, "events.k8s.io list") && s.equal("events.k8s.io list", len(recentList.Items), 1) {
		s.equal("event: note", recentList.Items[0].Note, "a recent event")
		s.equal("event: action", recentList.Items[0].Action, "Testing")
	}
}
