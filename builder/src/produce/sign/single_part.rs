//! The PKCS#11 call that the crate `cryptoki` lacks: `C_Sign` after a separate `C_SignInit`. A key
//! that requires the PIN at each use requires it between the two (PKCS#11 3.0, 5.6.8), and raw RSA
//! has no multi-part signing.

use cryptoki::context::Function;
use cryptoki::error::{Error, Result, Rv};
use cryptoki::session::Session;
use cryptoki_sys::{CK_FUNCTION_LIST, CK_ULONG, Pkcs11};
use std::path::Path;
use std::ptr;

/// A token's module, which is loaded already.
pub(super) struct SinglePart {
    /// Keeps the module, and so `functions`, loaded.
    _module: Pkcs11,
    functions: *const CK_FUNCTION_LIST,
}

// SAFETY: the list is constant as long as the module is loaded, and modules are initialized for use
// by several threads.
unsafe impl Send for SinglePart {}
// SAFETY: as above.
unsafe impl Sync for SinglePart {}

impl SinglePart {
    /// Opens the module in this file.
    ///
    /// # Errors
    /// It cannot be loaded, or has no functions.
    pub fn of(module: &Path) -> Result<Self> {
        // SAFETY: the module was loaded before from the same path, so none of its code runs now.
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

    /// Signs `data` in a session after `C_SignInit`.
    ///
    /// # Errors
    /// The token refuses it.
    pub fn sign(&self, session: &Session, data: &[u8]) -> Result<Vec<u8>> {
        // SAFETY: the list lives as long as the module, and its entries are constant.
        let sign = unsafe { (*self.functions).C_Sign }.ok_or(Error::NullFunctionPointer)?;
        // An RSA signature is as long as its key, here up to 8192 bits. Asking for the length first
        // would be another call, and some tokens count calls.
        let mut signature = vec![0; 1024];
        let mut length = signature.len() as CK_ULONG;
        // SAFETY: both pointers are valid for their lengths, and the token does not write to
        // `data`.
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
