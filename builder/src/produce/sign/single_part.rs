//! The one call of PKCS#11 that the crate `cryptoki` lacks: `C_Sign` after an earlier `C_SignInit`.
//! A key that requires the PIN at each use requires it between both (PKCS#11 3.0, 5.6.8), and a
//! bare RSA signature cannot be made in parts instead.

use cryptoki::context::Function;
use cryptoki::error::{Error, Result, Rv};
use cryptoki::session::Session;
use cryptoki_sys::{CK_FUNCTION_LIST, CK_ULONG, Pkcs11};
use std::path::Path;
use std::ptr;

/// A token's module, which is loaded already.
pub(super) struct SinglePart {
    /// It stays loaded as long as this is there, and `functions` with it.
    _module: Pkcs11,
    functions: *const CK_FUNCTION_LIST,
}

// SAFETY: the list is constant as long as the module is loaded, and modules are initialized for use
// by several threads.
unsafe impl Send for SinglePart {}
// SAFETY: as above.
unsafe impl Sync for SinglePart {}

impl SinglePart {
    /// The module in this file.
    ///
    /// # Errors
    /// It cannot be loaded, or has no functions.
    pub fn of(module: &Path) -> Result<Self> {
        // SAFETY: the module was loaded before by the same path, so that no code of it runs now.
        let module = unsafe { Pkcs11::new(module) }.map_err(Error::LibraryLoading)?;
        let mut functions = ptr::null_mut();
        // SAFETY: the pointer is valid for the call.
        let value = unsafe { module.C_GetFunctionList(&mut functions) };
        Rv::from(value).into_result(Function::GetFunctionList)?;
        if functions.is_null() {
            return Err(Error::NullFunctionPointer);
        }
        Ok(SinglePart { _module: module, functions })
    }

    /// The signature of `data`, for which the session has begun to sign.
    ///
    /// # Errors
    /// The token refuses it.
    pub fn sign(&self, session: &Session, data: &[u8]) -> Result<Vec<u8>> {
        // SAFETY: the list is there as long as the module is, and its entries are never changed.
        let sign = unsafe { (*self.functions).C_Sign }.ok_or(Error::NullFunctionPointer)?;
        // An RSA signature is as long as its key, here up to 8192 bits. Asking for the length first
        // would be another call, and some tokens count calls.
        let mut signature = vec![0; 1024];
        let mut length = signature.len() as CK_ULONG;
        // SAFETY: both pointers are valid for the lengths that go with them, and the token does not
        // write to `data`.
        let value = unsafe {
            sign(
                session.handle(),
                data.as_ptr().cast_mut(),
                data.len() as CK_ULONG,
                signature.as_mut_ptr(),
                &mut length,
            )
        };
        Rv::from(value).into_result(Function::Sign)?;
        signature.truncate(length as usize);
        Ok(signature)
    }
}
