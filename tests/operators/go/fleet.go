package main

import (
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var groupVersion = schema.GroupVersion{Group: "harbour.example.com", Version: "v1"}

// Fleet is a number of ships with one home port and common orders.
type Fleet struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   FleetSpec   `json:"spec"`
	Status FleetStatus `json:"status,omitempty"`
}

type FleetSpec struct {
	Port   string            `json:"port"`
	Ships  *int32            `json:"ships,omitempty"`
	Image  string            `json:"image,omitempty"`
	Orders map[string]string `json:"orders,omitempty"`
}

type FleetStatus struct {
	Ships              int32              `json:"ships,omitempty"`
	Selector           string             `json:"selector,omitempty"`
	ObservedGeneration int64              `json:"observedGeneration,omitempty"`
	Conditions         []metav1.Condition `json:"conditions,omitempty"`
}

type FleetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Fleet `json:"items"`
}

func addFleets(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(groupVersion, &Fleet{}, &FleetList{})
	metav1.AddToGroupVersion(scheme, groupVersion)
	return nil
}

func (f *Fleet) DeepCopyObject() runtime.Object { return f.deepCopy() }

func (f *Fleet) deepCopy() *Fleet {
	out := *f
	f.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	out.Spec.Orders = maps.Clone(f.Spec.Orders)
	if f.Spec.Ships != nil {
		ships := *f.Spec.Ships
		out.Spec.Ships = &ships
	}
	out.Status.Conditions = nil
	for _, condition := range f.Status.Conditions {
		out.Status.Conditions = append(out.Status.Conditions, *condition.DeepCopy())
	}
	return &out
}

func (l *FleetList) DeepCopyObject() runtime.Object {
	out := FleetList{TypeMeta: l.TypeMeta, ListMeta: *l.ListMeta.DeepCopy()}
	for i := range l.Items {
		out.Items = append(out.Items, *l.Items[i].deepCopy())
	}
	return &out
}
