//! The compilers of GLSL and WGSL in a process of their own. They call themselves for each level of nesting, expand macros
//! without end and have no way to be stopped: a source that makes one overflow its stack, fill the memory or run for ever
//! ends that process, and this one says so. It has a thread with a large stack, a limit of memory and one of time, and
//! compiles one source after the other for as long as it has nothing to complain of.

use super::compile::{Compiled, Source};
use crate::basis::error::Error;
use crate::basis::printable::{Shown, ending, is_kill};
use crate::basis::threads::{self, CANNOT_START};
use crate::basis::units::Bytes;
use crate::process::{self, FAREWELL, Helper, Lifetime, OutputPolicy, guarded, message};
use std::any::Any;
use std::process::Command;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// The words that make this program such a process.
const WORDS: [&str; 2] = ["worker", "--compiler"];
/// Stack of a compiler. Memory is taken for what is used of it alone.
const STACK: usize = 512 << 20;
/// Memory of a process that compiles, its stack included.
const MOST_MEMORY: Bytes = Bytes(4 << 30);
/// Time that a source may take to compile, in polls: the clock of a process that is stopped and continued runs on.
const MAX_POLLS: u32 = 1200;
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// A process that compiles.
type Compiler = Helper<Result<Compiled, String>>;
/// A source, and values of its overridable constants.
type Compilation<'a> = (&'a Source, &'a [(String, f64)]);

/// The process of the last time.
static KEPT: Mutex<Option<Compiler>> = Mutex::new(None);

/// Compiles GLSL or WGSL.
///
/// # Errors
/// What the compiler says, or how it ended.
pub(super) fn compile(source: &Source, overrides: &[(String, f64)]) -> Result<Compiled, String> {
    let order = (source, overrides);
    // A path that is no text cannot be sent.
    if !guarded::has_front_ends_apart() || serde_json::to_value(order).is_err() {
        return on_large_stack(|| source.compile_here(overrides));
    }
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    // One that somebody ended since is not to blame.
    let alive = kept.take().and_then(|mut last| last.is_alive().then_some(last));
    let shown = source.path.shown();
    let mut attempt = |compiler: Result<Compiler, String>| {
        let mut compiler = compiler?;
        if let Some(answer) = ask(&mut compiler, &order) {
            *kept = Some(compiler);
            return answer.map(Ok);
        }
        compiler.end(FAREWELL).map(Err).map_err(|e| format!("{shown}: its compiler is gone: {e}"))
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

/// Starts a process that compiles.
fn start() -> Result<Compiler, String> {
    let start =
        || Helper::start(Command::new(std::env::current_exe()?).args(WORDS), OutputPolicy::Discarded, Lifetime::Tied);
    start().map_err(|e| format!("{CANNOT_START} this program again to compile: {}", threads::explained(&e)))
}

/// Has a source compiled; `None` if the process ended instead, perhaps by what ends the commands of this process.
fn ask(compiler: &mut Compiler, order: &Compilation<'_>) -> Option<Result<Compiled, String>> {
    compiler.send(order);
    loop {
        match compiler.receive(POLL_INTERVAL) {
            Ok(answer) => return Some(answer),
            Err(RecvTimeoutError::Disconnected) => return None,
            Err(RecvTimeoutError::Timeout) if guarded::interrupted() => {
                let _ = compiler.kill();
                return None;
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
}

/// Compiles what another process of this program orders, until that is gone.
///
/// # Errors
/// When an order cannot be understood: the other process is no such program.
pub(crate) fn serve() -> Result<(), Error> {
    process::end_with_parent();
    limit();
    for line in message::lines(std::io::stdin().lock()) {
        let Some(Ok((source, overrides))) = message::parse::<(Source, Vec<(String, f64)>)>(&line) else {
            return Err(Error::Failure("this is a process that compiles for another".into()));
        };
        let (compiled, watched) = mpsc::channel::<()>();
        let shown = source.path.shown();
        let watch = threads::start(move || {
            let mut most = format!("longer than {:?}", POLL_INTERVAL * MAX_POLLS);
            for _ in 0..MAX_POLLS {
                if watched.recv_timeout(POLL_INTERVAL) != Err(RecvTimeoutError::Timeout) {
                    return;
                }
                // Where no limit sees to it.
                if cfg!(windows) && process::resident().is_some_and(|memory| memory > MOST_MEMORY) {
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
    let _ = message::write(&mut std::io::stdout().lock(), result);
}

/// Has this process end before it fills the memory, if the system can see to it.
fn limit() {
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
