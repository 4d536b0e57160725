package main

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

const (
	defaultShips = 1
	mostShips    = 10
	defaultImage = "registry.example.com/ship:1"
	// Fleets with this annotation are not deleted.
	keepAnnotation = "harbour.example.com/keep"
)

// fleetWebhooks fills in what is left out and refuses what no harbour can take.
type fleetWebhooks struct{}

func (fleetWebhooks) Default(_ context.Context, fleet *Fleet) error {
	if fleet.Spec.Ships == nil {
		ships := int32(defaultShips)
		fleet.Spec.Ships = &ships
	}
	if fleet.Spec.Image == "" {
		fleet.Spec.Image = defaultImage
	}
	return nil
}

func (fleetWebhooks) ValidateCreate(_ context.Context, fleet *Fleet) (admission.Warnings, error) {
	return check(fleet)
}

func (fleetWebhooks) ValidateUpdate(_ context.Context, _, fleet *Fleet) (admission.Warnings, error) {
	return check(fleet)
}

func (fleetWebhooks) ValidateDelete(_ context.Context, fleet *Fleet) (admission.Warnings, error) {
	if _, keep := fleet.Annotations[keepAnnotation]; keep {
		return nil, fmt.Errorf("fleet %s is to be kept", fleet.Name)
	}
	return nil, nil
}

func check(fleet *Fleet) (admission.Warnings, error) {
	if *fleet.Spec.Ships > mostShips {
		return nil, fmt.Errorf("no harbour takes %d ships", *fleet.Spec.Ships)
	}
	if *fleet.Spec.Ships == 0 {
		return admission.Warnings{"a fleet without ships"}, nil
	}
	return nil, nil
}
