pub mod error;
pub mod observe;
pub mod purse;
pub mod walk;
