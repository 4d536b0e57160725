// An operator as kubebuilder would lay it out, small: the kind Fleet with its
// webhooks, its reconciler, leader election and protected metrics.
package main

import (
	"os"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
)

const leaseName = "fleet-operator"

func main() {
	options := operatorOptions{leaseNamespace: "default", metrics: ":8443", webhooks: webhook.Options{Port: 9443}}
	manager, err := newOperator(ctrl.GetConfigOrDie(), options)
	if err == nil {
		err = manager.Start(ctrl.SetupSignalHandler())
	}
	if err != nil {
		ctrl.Log.Error(err, "the operator ends")
		os.Exit(1)
	}
}

type operatorOptions struct {
	leaseNamespace string
	metrics        string
	webhooks       webhook.Options
	// Another operator in the same process counts under the same name.
	notAlone bool
}

func newOperator(server *rest.Config, options operatorOptions) (ctrl.Manager, error) {
	scheme, err := newScheme()
	if err != nil {
		return nil, err
	}
	lease, renew, retry := 3*time.Second, 2*time.Second, 300*time.Millisecond
	manager, err := ctrl.NewManager(server, ctrl.Options{
		Scheme:                        scheme,
		LeaderElection:                true,
		LeaderElectionID:              leaseName,
		LeaderElectionNamespace:       options.leaseNamespace,
		LeaderElectionReleaseOnCancel: true,
		LeaseDuration:                 &lease,
		RenewDeadline:                 &renew,
		RetryPeriod:                   &retry,
		Controller:                    config.Controller{SkipNameValidation: &options.notAlone},
		WebhookServer:                 webhook.NewServer(options.webhooks),
		Metrics: metricsserver.Options{
			BindAddress:    options.metrics,
			SecureServing:  true,
			FilterProvider: filters.WithAuthenticationAndAuthorization,
		},
	})
	if err != nil {
		return nil, err
	}
	err = ctrl.NewWebhookManagedBy(manager, &Fleet{}).WithDefaulter(fleetWebhooks{}).WithValidator(fleetWebhooks{}).Complete()
	if err != nil {
		return nil, err
	}
	reconciler := &fleetReconciler{Client: manager.GetClient(), live: manager.GetAPIReader(), recorder: manager.GetEventRecorder("fleet-operator")}
	return manager, reconciler.setUp(manager)
}

func newScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		return nil, err
	}
	return scheme, addFleets(scheme)
}
