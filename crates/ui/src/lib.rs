//! The explorer: a page to look at a cluster with, and the little server that hands it out.
//!
//! [`serve`] is the entry point. It answers on a listener of its own, so that the page has an origin of its own: pages of
//! aggregated servers share that of the API. The page asks for everything of the cluster below `k8s/`; such requests are
//! handed to [`Settings::forward`], which adds the user's credentials.
//!
//! Who may use it ([`sessions`], [`guard`]): a link with a code that opens one browser once, and gives that a cookie. The
//! page asks for a token by the cookie and has it in its memory; every request to the cluster needs both. A page of
//! another site has neither, and is told so by its `Origin`, its `Sec-Fetch-Site` or the `Host` it believes to speak to.
//! Cookies do not tell ports apart, so that other programs on this machine would see one for the whole host: each has a path of
//! its own, that nobody else is asked for.
//!
//! Nothing that a browser sends on its own account goes on to the cluster: of its headers only those in [`proxy`] do.
//!
//! This crate does not know how a cluster is reached, who the user is, nor what a kustomization is.

pub mod assets;
pub mod guard;
pub mod proxy;
pub mod server;
pub mod sessions;

pub use server::{Answer, Body, BoxError, Build, Forward, Kustomizations, Settings, Tls, serve};
