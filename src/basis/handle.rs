//! Handles to items of static tables, and to items made at run time.

use std::ops::Deref;
use std::sync::Arc;

/// A reference to a static item, or to one made at run time, which lives as long as its handles.
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
