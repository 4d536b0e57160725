//! The admission webhook: sets the number of lamps, refuses too many of them and
//! the deletion of what is to be kept.

use std::{convert::Infallible, net::SocketAddr, sync::Arc};

use base64::{Engine, engine::general_purpose::STANDARD};
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::{
    body::{Bytes, Incoming},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use json_patch::{AddOperation, PatchOperation, jsonptr::PointerBuf};
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use kube::{
    Api, Client, ResourceExt,
    api::{Patch, PatchParams},
    core::admission::{AdmissionRequest, AdmissionResponse, AdmissionReview, Operation},
};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_rustls::{
    TlsAcceptor,
    rustls::{ServerConfig, pki_types::PrivateKeyDer},
};

use crate::{Problem, kind::Lighthouse};

pub const KEEP: &str = "lights.example.com/keep";
pub const MOST_LAMPS: i32 = 9;
const NAME: &str = "lighthouses.lights.example.com";
/// More than any review of an object that a server stores.
const MOST_BYTES: usize = 8 << 20;

pub struct Endpoint {
    listener: TcpListener,
    tls: TlsAcceptor,
    address: SocketAddr,
    certificate: String,
}

impl Endpoint {
    /// A port of its own, and a certificate that is its own authority.
    pub async fn bind() -> Result<Self, Problem> {
        let issued = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()])?;
        let key = PrivateKeyDer::try_from(issued.signing_key.serialize_der())?;
        let config = ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(vec![issued.cert.der().clone()], key)?;
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        Ok(Self {
            listener,
            tls: TlsAcceptor::from(Arc::new(config)),
            address,
            certificate: issued.cert.pem(),
        })
    }

    pub async fn serve(self) {
        loop {
            let Ok((stream, _)) = self.listener.accept().await else { continue };
            let tls = self.tls.clone();
            tokio::spawn(async move {
                let Ok(stream) = tls.accept(stream).await else { return };
                let connection =
                    http1::Builder::new().serve_connection(TokioIo::new(stream), service_fn(answer));
                if let Err(problem) = connection.await {
                    eprintln!("webhook: {problem}");
                }
            });
        }
    }
}

async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let (head, body) = request.into_parts();
    let mut response = Response::new(Full::default());
    let review = match Limited::new(body, MOST_BYTES).collect().await {
        Ok(body) => serde_json::from_slice::<AdmissionReview<Lighthouse>>(&body.to_bytes()).ok(),
        Err(_) => None,
    };
    let asked = review.and_then(|review| -> Option<AdmissionRequest<Lighthouse>> { review.try_into().ok() });
    let (Method::POST, Some(asked)) = (head.method, asked) else {
        *response.status_mut() = StatusCode::BAD_REQUEST;
        return Ok(response);
    };
    let said = match head.uri.path() {
        "/mutate" => mutate(&asked),
        "/validate" => validate(&asked),
        _ => AdmissionResponse::invalid("there is no such webhook"),
    };
    let body = serde_json::to_vec(&said.into_review()).unwrap_or_default();
    *response.body_mut() = Full::new(body.into());
    response.headers_mut().insert("content-type", http::HeaderValue::from_static("application/json"));
    Ok(response)
}

fn mutate(request: &AdmissionRequest<Lighthouse>) -> AdmissionResponse {
    let response = AdmissionResponse::from(request);
    let Some(light) = request.object.as_ref().filter(|light| light.spec.lamps.is_none()) else {
        return response;
    };
    let lamps = 1 + light.spec.height / 10;
    let path = PointerBuf::from_tokens(["spec", "lamps"]);
    let patch = json_patch::Patch(vec![PatchOperation::Add(AddOperation { path, value: lamps.into() })]);
    response.with_patch(patch).unwrap_or_else(AdmissionResponse::invalid)
}

fn validate(request: &AdmissionRequest<Lighthouse>) -> AdmissionResponse {
    let response = AdmissionResponse::from(request);
    if request.operation == Operation::Delete {
        return match &request.old_object {
            Some(light) if light.annotations().contains_key(KEEP) => {
                response.deny(format!("{} is to be kept", light.name_any()))
            }
            _ => response,
        };
    }
    match request.object.as_ref().and_then(|light| light.spec.lamps) {
        Some(lamps) if lamps > MOST_LAMPS => response.deny(format!("{lamps} lamps are too many")),
        _ => response,
    }
}

pub async fn install(client: &Client, endpoint: &Endpoint) -> Result<(), Problem> {
    let apply = PatchParams::apply("installer").force();
    let configuration = |kind: &str, path: &str, operations: &[&str]| -> Value {
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": kind,
            "metadata": {"name": NAME},
            "webhooks": [{
                "name": NAME,
                "admissionReviewVersions": ["v1"],
                "sideEffects": "None",
                "failurePolicy": "Fail",
                "clientConfig": {
                    "url": format!("https://{}/{path}", endpoint.address),
                    "caBundle": STANDARD.encode(&endpoint.certificate),
                },
                "rules": [{
                    "apiGroups": ["lights.example.com"], "apiVersions": ["v1"],
                    "resources": ["lighthouses"], "operations": operations,
                }],
            }],
        })
    };
    let mutating = configuration("MutatingWebhookConfiguration", "mutate", &["CREATE", "UPDATE"]);
    Api::<MutatingWebhookConfiguration>::all(client.clone())
        .patch(NAME, &apply, &Patch::Apply(&mutating))
        .await?;
    let validating =
        configuration("ValidatingWebhookConfiguration", "validate", &["CREATE", "UPDATE", "DELETE"]);
    Api::<ValidatingWebhookConfiguration>::all(client.clone())
        .patch(NAME, &apply, &Patch::Apply(&validating))
        .await?;
    Ok(())
}
