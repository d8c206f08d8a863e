//! The compilers of GLSL and WGSL in a process of their own. They call themselves for each level of nesting, expand macros
//! without end and have no way to be stopped: a source that makes one overflow its stack, fill the memory or run for ever
//! ends that process, and this one says so. It has a thread with a large stack, a limit of memory and one of time, and
//! compiles one source after the other for as long as it has nothing to complain of.

use super::compile::{Compiled, Source};
use super::guarded;
use crate::basis::error::Error;
use crate::basis::printable::{Shown, ending, is_kill};
use crate::basis::threads::{self, CANNOT_START};
use crate::basis::units::Bytes;
use std::any::Any;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// The words that make this program such a process.
const WORDS: [&str; 2] = ["worker", "--compiler"];
/// What an answer begins with: glslang prints to standard output too.
const ANSWER: &str = "gpukern-compiled ";
/// Stack of a compiler. Memory is taken for what is used of it alone.
const STACK: usize = 512 << 20;
/// Memory of a process that compiles, its stack included.
const MOST_MEMORY: Bytes = Bytes(4 << 30);
/// Time that a source may take to compile, in looks: the clock of a process that is stopped and continued runs on.
const LOOKS: u32 = 1200;
const LOOK: Duration = Duration::from_millis(100);

/// Whether there is a program that can be started again to compile: not in tests of this library.
static APART: AtomicBool = AtomicBool::new(false);
/// The process of the last time.
static KEPT: Mutex<Option<FrontEnd>> = Mutex::new(None);

/// Has everything that follows compiled in another process of this program.
pub(crate) fn set_apart() {
    APART.store(true, Ordering::Relaxed);
}

/// Compiles GLSL or WGSL.
///
/// # Errors
/// What the compiler says, or how it ended.
pub(super) fn compile(source: &Source, overrides: &[(String, f64)]) -> Result<Compiled, String> {
    // A path that is no text cannot be sent.
    let order = APART.load(Ordering::Relaxed).then(|| serde_json::to_string(&(source, overrides)).ok()).flatten();
    let Some(order) = order else { return on_large_stack(|| source.compile_here(overrides)) };
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    // One that somebody ended since is not to blame.
    let alive = kept.take().and_then(|mut last| matches!(last.child.try_wait(), Ok(None)).then_some(last));
    let start = || {
        FrontEnd::start()
            .map_err(|e| format!("{CANNOT_START} this program again to compile: {}", threads::explained(&e)))
    };
    let shown = source.path.shown();
    let mut attempt = |process: Result<FrontEnd, String>| {
        let mut process = process?;
        if let Some(answer) = process.ask_until_interrupted(&order) {
            *kept = Some(process);
            return answer.map(Ok);
        }
        process.end().map(Err).map_err(|e| format!("{shown}: its compiler is gone: {e}"))
    };
    let status = match attempt(alive.map_or_else(start, Ok))? {
        // Whoever killed it may have meant another: nobody's source is to blame.
        Err(status) if is_kill(status) && !guarded::interrupted() => attempt(start())?,
        other => other,
    };
    let status = match status {
        Ok(compiled) => return Ok(compiled),
        Err(status) => status,
    };
    // Ctrl-C reaches both.
    let why = if is_kill(status) { "" } else { "; it is nested too deeply, or too large: split it into smaller parts" };
    Err(format!("{shown}: its compiler ended with {}{why}", ending(status)))
}

/// Another process of this program that compiles.
struct FrontEnd {
    child: Child,
    _tie: guarded::Tie,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl FrontEnd {
    fn start() -> std::io::Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(WORDS).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn()?;
        let pipes = child.stdin.take().zip(child.stdout.take());
        let (orders, answers) = pipes.ok_or_else(|| std::io::Error::other("it has no pipes"))?;
        Ok(Self { _tie: guarded::Tie::of(&child, true), child, orders, answers: BufReader::new(answers) })
    }

    /// [`Self::ask`], ended by what ends the commands of this process.
    fn ask_until_interrupted(&mut self, order: &str) -> Option<Result<Compiled, String>> {
        let Self { child, orders, answers, .. } = self;
        let (asked, answered) = mpsc::channel::<()>();
        thread::scope(|scope| {
            let watch = threads::start_scoped(scope, move || {
                while answered.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
                    if guarded::interrupted() {
                        let _ = child.kill();
                        return;
                    }
                }
            });
            let answer = match watch {
                Ok(_) => Self::ask(orders, answers, order),
                Err(error) => Some(Err(error.to_string())),
            };
            drop(asked);
            answer
        })
    }

    /// Has a source compiled; `None` where the process ended instead.
    fn ask(orders: &mut ChildStdin, answers: &mut impl BufRead, order: &str) -> Option<Result<Compiled, String>> {
        writeln!(orders, "{order}").and_then(|()| orders.flush()).ok()?;
        loop {
            let mut line = vec![];
            if answers.read_until(b'\n', &mut line).ok()? == 0 {
                return None;
            }
            if let Some(answer) = line.strip_prefix(ANSWER.as_bytes()) {
                return serde_json::from_slice(answer).ok();
            }
        }
    }

    /// How the process ended, which it does if it has not yet.
    fn end(mut self) -> std::io::Result<ExitStatus> {
        drop(self.orders);
        drop(self.answers);
        self.child.wait()
    }
}

/// Compiles what another process of this program orders, until that is gone.
///
/// # Errors
/// When an order cannot be understood: the other process is no such program.
pub(crate) fn serve() -> Result<(), Error> {
    limit();
    for line in std::io::stdin().lock().lines() {
        let order = line.ok().and_then(|line| serde_json::from_str::<(Source, Vec<(String, f64)>)>(&line).ok());
        let Some((source, overrides)) = order else {
            return Err(Error::Failure("this is a process that compiles for another".into()));
        };
        let (compiled, watched) = mpsc::channel::<()>();
        let shown = source.path.shown();
        let watch = threads::start(move || {
            let mut most = format!("longer than {:?}", LOOK * LOOKS);
            for _ in 0..LOOKS {
                if watched.recv_timeout(LOOK) != Err(RecvTimeoutError::Timeout) {
                    return;
                }
                // Where no limit sees to it.
                if cfg!(windows) && guarded::resident().is_some_and(|memory| memory > MOST_MEMORY) {
                    most = format!("more than {MOST_MEMORY} of memory");
                    break;
                }
            }
            answer(&Err(format!("{shown}: it takes {most} to compile; simplify it")));
            std::process::exit(0);
        });
        let result = match &watch {
            Ok(_) => on_large_stack(|| source.compile_here(&overrides)),
            Err(error) => Err(error.to_string()),
        };
        drop(compiled);
        let _ = watch.map(thread::JoinHandle::join);
        answer(&result);
    }
    Ok(())
}

fn answer(result: &Result<Compiled, String>) {
    let text = serde_json::to_string(result).unwrap_or_default();
    // Behind whatever glslang has printed.
    let mut output = std::io::stdout().lock();
    let _ = writeln!(output, "\n{ANSWER}{text}").and_then(|()| output.flush());
}

/// Has this process end with its parent, and before it fills the memory, where the system can see to it.
fn limit() {
    #[cfg(target_os = "linux")]
    let _ = nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGKILL);
    #[cfg(unix)]
    {
        use nix::sys::resource::{Resource, getrlimit, setrlimit};
        if let Ok((_, hard)) = getrlimit(Resource::RLIMIT_AS) {
            let _ = setrlimit(Resource::RLIMIT_AS, MOST_MEMORY.0.min(hard), hard);
            let _ = setrlimit(Resource::RLIMIT_CORE, 0, 0);
        }
    }
}

/// The result of `work`, done by a thread with a stack for compilers. One that panics has failed.
fn on_large_stack<T: Send>(work: impl FnOnce() -> Result<T, String> + Send) -> Result<T, String> {
    thread::scope(|scope| {
        let thread = thread::Builder::new().stack_size(STACK).spawn_scoped(scope, work);
        let thread = thread.map_err(|e| format!("there is no memory for a compiler: {e}"))?;
        thread.join().unwrap_or_else(|panic| Err(format!("its compiler failed: {}", said(&*panic))))
    })
}

/// What a panic says.
fn said(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("it panicked")
}
