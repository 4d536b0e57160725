//! `sternpost ui`, and `serve --ui`: the explorer, a page to look at a cluster with.
//!
//! The page and the rules who may use it are in `sternpost_ui`; here is how a cluster is reached for it.

use std::{
    fs,
    io::{self, IsTerminal, Write},
    path::PathBuf,
    process::{Command, Stdio},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context, anyhow};
use arc_swap::ArcSwap;
use clap::Args;
use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt;
use serde_json::{Map, Value};
use sternpost_auth::{certificate::SubjectAltName, token::Token};
use sternpost_clock::machine;
use sternpost_outbound::Cause;
use sternpost_tasks::Tasks;
use sternpost_ui::{Body, Forward, Settings};
use tokio::{net::TcpListener, sync::Mutex};
use tokio_rustls::rustls::ServerConfig;

use crate::{
    cli::{LogFormat, LogLevel},
    client::{Client, TIMEOUT},
    data_dir,
    error::Hinted,
    kubeconfig::{self, Access, AccessArgs, Credentials},
    listen::Listen,
    logging, serve,
    serve::Signals,
    terminal,
};

mod kustomize;

pub const EXAMPLES: &str = "\
Examples:
  # Look at the cluster of the current context, in the browser
  sternpost ui

  # At another one, without a way to change anything
  sternpost ui --context production --read-only

  # On a machine without a browser: print the link, and reach the port by `ssh -L 8001:127.0.0.1:8001`
  sternpost ui --no-open --listen 127.0.0.1:8001

  # With the fields of kustomizations and the files that write them, side by side
  sternpost ui overlays/staging overlays/production";

/// Credentials that a server refuses are looked for again, and not more often than this.
const RELOAD_INTERVAL: Duration = Duration::from_secs(5);

#[derive(Debug, Args)]
pub struct UiArgs {
    /// Directories with kustomizations to show beside the cluster
    #[arg(value_name = "DIR")]
    directories: Vec<PathBuf>,

    /// Address and port for the page, on this machine; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:0")]
    listen: Listen,

    /// Refuse everything that would change the cluster
    #[arg(long)]
    read_only: bool,

    /// Print the link, and do not open a browser
    #[arg(long)]
    no_open: bool,

    #[command(flatten)]
    access: AccessArgs,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Explorer")]
pub struct ServeUiArgs {
    /// Serve a page to look at the objects with, on a port of its own; a link that opens it once is written to stderr
    #[arg(long)]
    ui: bool,

    /// Address and port for the page; beyond loopback it is served with the server's certificate
    /// [default: a free port of 127.0.0.1]
    #[arg(long, value_name = "ADDRESS:PORT", requires = "ui")]
    ui_listen: Option<Listen>,

    /// Let the page change nothing
    #[arg(long, requires = "ui")]
    ui_read_only: bool,
}

pub fn run(args: &UiArgs) -> anyhow::Result<()> {
    logging::init(LogFormat::Text, LogLevel::Warn);
    let kustomizations = kustomize::kustomizations(&args.directories)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let outcome = runtime.block_on(async {
        let signals = Signals::new().context("cannot listen for signals")?;
        let (context, namespace) = kubeconfig::context(&args.access)?;
        let access = kubeconfig::load(&args.access).await?;
        let server = access.server.clone();
        let listener = args.listen.bind().await?;
        if !listener.local_addr()?.ip().is_loopback() {
            return Err(Hinted {
                message: format!(
                    "--listen {}: the page would be there for others, too, in plain text",
                    args.listen
                ),
                hint: "listen on 127.0.0.1, and reach it from elsewhere by `ssh -L`".into(),
            }
            .into());
        }
        let opens = !args.no_open && has_desktop();
        let settings = Settings {
            name: None,
            tls: None,
            is_read_only: args.read_only,
            about: about(context.as_deref(), &server, namespace.as_deref()),
            forward: cluster(&access, Some(args.access.clone()))?,
            kustomizations,
            offer: Arc::new(move |link| {
                tell_link(&server, link);
                if opens && let Err(error) = open(link) {
                    terminal::tell(&format!("cannot open a browser: {error:#}"));
                }
            }),
        };
        let tasks = Tasks::default();
        sternpost_ui::serve(listener, settings, signals.first(&tasks)).await.context("cannot serve the page")
    });
    runtime.shutdown_timeout(serve::END_GRACE);
    outcome
}

/// Where the page of a server is, before that serves.
pub struct ExplorerListener {
    listener: TcpListener,
    name: Option<String>,
    is_tls: bool,
    is_read_only: bool,
}

impl ServeUiArgs {
    /// Listens if there is to be a page.
    pub async fn listener(&self) -> anyhow::Result<Option<ExplorerListener>> {
        if !self.ui {
            return Ok(None);
        }
        let listen = self.ui_listen.as_ref().unwrap_or(&Listen::FREE_PORT);
        let listener = listen.bind().await.context("--ui-listen")?;
        let is_tls = !listener.local_addr()?.ip().is_loopback();
        let name = match listen.name() {
            Some(SubjectAltName::Dns(name)) => Some(name),
            _ => None,
        };
        Ok(Some(ExplorerListener { listener, name, is_tls, is_read_only: self.ui_read_only }))
    }
}

impl ExplorerListener {
    /// Where browsers find it.
    pub fn url(&self) -> anyhow::Result<String> {
        let address = self.listener.local_addr()?;
        let place = sternpost_ui::guard::Place { address, name: self.name.clone(), is_tls: self.is_tls };
        Ok(format!("{}/", place.url()))
    }

    /// Serves the page until the tasks end. It asks the server as any other client does, as its administrator.
    pub fn start(
        self,
        server: &str,
        authority: Authority<'_>,
        token: &Token,
        name: &str,
        tls: Arc<ArcSwap<ServerConfig>>,
        tasks: &Tasks,
    ) -> anyhow::Result<()> {
        let access = Access {
            server: server.to_owned(),
            authority: match authority {
                Authority::Own(certificate) => Some(certificate.into()),
                Authority::Given => None,
            },
            server_name: None,
            // A certificate that was given need not name the address at which this process reaches itself, which
            // nobody else can listen on.
            insecure: matches!(authority, Authority::Given),
            proxy: None,
            credentials: Credentials {
                authorization: Some(format!("Bearer {}", token.reveal())),
                ..Credentials::default()
            },
            principal: String::new(),
        };
        let told = server.to_owned();
        let settings = Settings {
            name: self.name,
            tls: self.is_tls.then(|| Arc::new(move || tls.load_full()) as _),
            is_read_only: self.is_read_only,
            about: about(Some(name), server, None),
            forward: cluster(&access, None)?,
            kustomizations: None,
            offer: Arc::new(move |link| tell_link(&told, link)),
        };
        let listener = self.listener;
        tasks.once("explorer", async move {
            if let Err(error) = sternpost_ui::serve(listener, settings, std::future::pending()).await {
                tracing::error!(%error, "the explorer has ended");
            }
        });
        Ok(())
    }
}

/// Who vouches for a server that asks itself.
#[derive(Debug, Clone, Copy)]
pub enum Authority<'a> {
    /// Its own, PEM.
    Own(&'a str),
    /// Whoever made the certificate of `--tls-cert-file`.
    Given,
}

/// What the page is told of the cluster.
fn about(name: Option<&str>, server: &str, namespace: Option<&str>) -> Map<String, Value> {
    let said = [("cluster", name), ("server", Some(server)), ("namespace", namespace)];
    said.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?.into()))).collect()
}

/// A client for the page. If the server refuses its credentials, they are looked for again where they came from: tokens
/// that a program makes are good for minutes.
fn cluster(access: &Access, source: Option<AccessArgs>) -> anyhow::Result<Forward> {
    let client = ArcSwap::from_pointee(Client::new(access, TIMEOUT)?);
    let shared = Arc::new(Reached { client, source, reloaded: Mutex::new(machine::now()) });
    Ok(Arc::new(move |request| {
        let shared = shared.clone();
        Box::pin(async move { shared.ask(request).await.map_err(|error| format!("{error:#}")) })
    }))
}

struct Reached {
    client: ArcSwap<Client>,
    source: Option<AccessArgs>,
    reloaded: Mutex<machine::Instant>,
}

impl Reached {
    async fn ask(&self, request: Request<Body>) -> anyhow::Result<Response<Body>> {
        let again = repetition(&request);
        let first = self.client.load().forward(request).await;
        // A cluster that was made anew at the same address has other certificates.
        let is_stranger = match &first {
            Ok(answer) => answer.status() == StatusCode::UNAUTHORIZED,
            Err(cause) => matches!(cause, Cause::Certificate { .. }),
        };
        let is_other = is_stranger && again.is_some() && self.reload().await?;
        let answer = match again.filter(|_| is_other) {
            Some(again) => self.client.load().forward(again).await,
            None => first,
        };
        match answer {
            Ok(answer) => Ok(answer.map(|body| body.map_err(Into::into).boxed_unsync())),
            Err(cause) => Err(anyhow!(cause.in_system_words())),
        }
    }

    /// Whether there are other credentials now.
    async fn reload(&self) -> anyhow::Result<bool> {
        let Some(source) = &self.source else { return Ok(false) };
        // Held while a program is asked for credentials, so that only one is.
        let mut reloaded = self.reloaded.lock().await;
        if machine::elapsed(*reloaded) < RELOAD_INTERVAL {
            return Ok(false);
        }
        *reloaded = machine::now();
        self.client.store(Arc::new(Client::new(&kubeconfig::load(source).await?, TIMEOUT)?));
        Ok(true)
    }
}

/// The same request once more, if it has no body.
fn repetition(request: &Request<Body>) -> Option<Request<Body>> {
    let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
    is_read.then(|| {
        let mut again = Request::new(sternpost_outbound::empty());
        *again.method_mut() = request.method().clone();
        *again.uri_mut() = request.uri().clone();
        *again.headers_mut() = request.headers().clone();
        again
    })
}

/// On stderr and nowhere else: whoever reads a log is not to open the page.
fn tell_link(server: &str, link: &str) {
    let _ = writeln!(io::stderr(), "explorer of {server}, opens once: {link}");
}

/// Whether there is somebody to look, and something to look with.
#[expect(clippy::disallowed_methods, reason = "desktops are known by their variables")]
fn has_desktop() -> bool {
    let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let has_screen = cfg!(not(target_os = "linux")) || is_set("DISPLAY") || is_set("WAYLAND_DISPLAY");
    has_screen && io::stderr().is_terminal()
}

/// Opens the browser by a file that only this user can read: all users of a machine see the words of a command.
fn open(link: &str) -> anyhow::Result<()> {
    let folder = std::env::temp_dir().join(format!("sternpost-ui-{}", std::process::id()));
    match data_dir::private_dirs().create(&folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            return Err(error).with_context(|| format!("cannot create `{}`", folder.display()));
        }
        _ => {}
    }
    let page = folder.join("open.html");
    let text = format!(
        "<!doctype html><meta http-equiv=\"refresh\" content=\"0;url={link}\"><title>sternpost</title>\n"
    );
    data_dir::write_private(&page, &text)?;
    let program = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let mut browser = Command::new(program)
        .arg(&page)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| anyhow!("{program}: {error}"))?;
    std::thread::spawn(move || {
        let _ = browser.wait();
        // By then the browser has read it; and the code in it works once.
        machine::block(Duration::from_secs(10));
        let _ = fs::remove_dir_all(folder);
    });
    Ok(())
}
