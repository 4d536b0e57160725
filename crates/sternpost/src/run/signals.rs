//! Signals that are meant for the command.

#[cfg(not(unix))]
pub use of_others::{Signal, Signals};
#[cfg(unix)]
pub use of_unix::{Signal, Signals};

#[cfg(unix)]
mod of_unix {
    use std::{future::poll_fn, io, task::Poll};

    use rustix::process::{Pid, getpgrp, kill_process};
    use tokio::{
        process::Child,
        signal::unix::{self, SignalKind},
    };

    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct Signal(SignalKind);

    impl Signal {
        pub const TERMINATE: Self = Self(SignalKind::terminate());

        /// Those that a terminal sends to everybody who runs in it stand last.
        const ALL: [Self; 6] = [
            Self::TERMINATE,
            Self(SignalKind::hangup()),
            Self(SignalKind::user_defined1()),
            Self(SignalKind::user_defined2()),
            Self(SignalKind::interrupt()),
            Self(SignalKind::quit()),
        ];

        /// Of a process that it ends.
        pub fn exit_code(self) -> u8 {
            u8::try_from(128 + self.0.as_raw_value()).unwrap_or(1)
        }

        /// The command's, unless the terminal has sent it to the command as well.
        pub fn forward(self, child: &Child) {
            let by_terminal = [SignalKind::interrupt(), SignalKind::quit()].contains(&self.0);
            if by_terminal && is_in_foreground() {
                return;
            }
            let id = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
            let signal = rustix::process::Signal::from_named_raw(self.0.as_raw_value());
            if let (Some(id), Some(signal)) = (id, signal) {
                // It may have ended meanwhile, and is waited for then.
                let _ = kill_process(id, signal);
            }
        }
    }

    /// Whether what is typed at the terminal is for this process and the command.
    fn is_in_foreground() -> bool {
        let terminal = std::fs::File::open("/dev/tty").ok();
        terminal.and_then(|terminal| rustix::termios::tcgetpgrp(terminal).ok()) == Some(getpgrp())
    }

    #[derive(Debug)]
    pub struct Signals(Vec<(Signal, unix::Signal)>);

    impl Signals {
        pub fn new() -> io::Result<Self> {
            let listen = |signal: Signal| Ok((signal, unix::signal(signal.0)?));
            Signal::ALL.into_iter().map(listen).collect::<io::Result<_>>().map(Self)
        }

        pub async fn next(&mut self) -> Signal {
            poll_fn(|context| {
                let came = self.0.iter_mut().find_map(|(signal, stream)| {
                    matches!(stream.poll_recv(context), Poll::Ready(Some(()))).then_some(*signal)
                });
                came.map_or(Poll::Pending, Poll::Ready)
            })
            .await
        }
    }
}

#[cfg(not(unix))]
mod of_others {
    use std::io;

    use tokio::process::Child;

    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct Signal;

    impl Signal {
        pub const TERMINATE: Self = Self;

        pub fn exit_code(self) -> u8 {
            1
        }

        /// Whatever is typed reaches the command by itself.
        pub fn forward(self, _: &Child) {}
    }

    #[derive(Debug)]
    pub struct Signals;

    impl Signals {
        pub fn new() -> io::Result<Self> {
            Ok(Self)
        }

        pub async fn next(&mut self) -> Signal {
            if tokio::signal::ctrl_c().await.is_err() {
                std::future::pending::<()>().await;
            }
            Signal
        }
    }
}
