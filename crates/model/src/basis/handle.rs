//! Handles to static items, and to items created at run time.

use std::ops::Deref;
use std::sync::Arc;

/// Reference to a static item, or to a reference-counted one created at run time.
#[derive(Debug)]
pub enum Handle<T: ?Sized + 'static> {
    Static(&'static T),
    Shared(Arc<T>),
}

impl<T: ?Sized> Clone for Handle<T> {
    fn clone(&self) -> Self {
        match self {
            Self::Static(own) => Self::Static(own),
            Self::Shared(own) => Self::Shared(Arc::clone(own)),
        }
    }
}

impl<T: PartialEq + ?Sized> PartialEq for Handle<T> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl<T: ?Sized> Deref for Handle<T> {
    type Target = T;

    fn deref(&self) -> &T {
        match self {
            Self::Static(own) => own,
            Self::Shared(own) => own,
        }
    }
}

impl<T: ?Sized> From<&'static T> for Handle<T> {
    fn from(own: &'static T) -> Self {
        Self::Static(own)
    }
}
