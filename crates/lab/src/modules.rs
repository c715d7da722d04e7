//! The kernel modules that a guest needs, in load order.
//!
//! The guest's init script calls plain `insmod`, so dependencies are resolved here, from the
//! `.modinfo` section of each module. `modules.dep` is not used: it exists only after `depmod` has
//! run.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use lzma_rust2::XzReader;
use object::{Object, ObjectSection};

use crate::LabError;

/// A loadable module with its decompressed image.
#[derive(Debug, Clone)]
pub(crate) struct Module {
    pub(crate) name: String,
    pub(crate) image: Vec<u8>,
}

/// Loads `wanted` and all their dependencies from `dir` (`/lib/modules/<release>`), dependencies
/// first.
///
/// Skips modules that are built into the kernel.
pub(crate) fn resolve(dir: &Path, wanted: &[&str]) -> Result<Vec<Module>, LabError> {
    let mut index = BTreeMap::new();
    index_dir(&dir.join("kernel"), &mut index)?;
    let builtin_path = dir.join("modules.builtin");
    let builtin = fs::read_to_string(&builtin_path).map_err(LabError::io("read", &builtin_path))?;
    let builtin: Vec<String> = builtin
        .lines()
        .filter_map(|line| line.rsplit('/').next())
        .map(module_name)
        .collect();
    let mut loaded = Vec::new();
    for name in wanted {
        visit(name, &index, &builtin, dir, 0, &mut loaded)?;
    }
    Ok(loaded)
}

fn visit(
    name: &str,
    index: &BTreeMap<String, PathBuf>,
    builtin: &[String],
    dir: &Path,
    depth: usize,
    loaded: &mut Vec<Module>,
) -> Result<(), LabError> {
    if builtin.iter().any(|known| known == name) || loaded.iter().any(|module| module.name == name)
    {
        return Ok(());
    }
    // The depth limit ends the recursion if damaged modules depend on each other in a cycle.
    let path = index
        .get(name)
        .filter(|_| depth < 32)
        .ok_or_else(|| LabError::IncompleteKit {
            root: dir.to_owned(),
            missing: format!("kernel module {name}"),
        })?;
    let image = load(path)?;
    for dependency in dependencies(&image, path)? {
        visit(&dependency, index, builtin, dir, depth + 1, loaded)?;
    }
    loaded.push(Module {
        name: name.to_owned(),
        image,
    });
    Ok(())
}

fn index_dir(dir: &Path, index: &mut BTreeMap<String, PathBuf>) -> Result<(), LabError> {
    for entry in fs::read_dir(dir).map_err(LabError::io("list", dir))? {
        let path = entry.map_err(LabError::io("list", dir))?.path();
        if path.is_dir() {
            index_dir(&path, index)?;
        } else if let Some(file) = path
            .file_name()
            .map(|name| name.to_string_lossy().into_owned())
            .filter(|name| name.contains(".ko"))
        {
            index.insert(module_name(&file), path);
        }
    }
    Ok(())
}

/// The module's name for a file name: dashes become underscores, as in the kernel.
fn module_name(file: &str) -> String {
    file.split(".ko").next().unwrap_or(file).replace('-', "_")
}

fn load(path: &Path) -> Result<Vec<u8>, LabError> {
    let bytes = fs::read(path).map_err(LabError::io("read", path))?;
    match path.extension().and_then(|ext| ext.to_str()) {
        Some("ko") => Ok(bytes),
        Some("xz") => {
            let mut image = Vec::new();
            XzReader::new(bytes.as_slice(), true)
                .read_to_end(&mut image)
                .map_err(LabError::io("decompress", path))?;
            Ok(image)
        }
        _ => Err(LabError::Program {
            path: path.to_owned(),
            reason: "only .ko and .ko.xz modules can be read".into(),
        }),
    }
}

/// The module names in the `depends=` entry of the `.modinfo` section.
fn dependencies(image: &[u8], path: &Path) -> Result<Vec<String>, LabError> {
    let damaged = |reason: String| LabError::Program {
        path: path.to_owned(),
        reason,
    };
    let file = object::File::parse(image)
        .map_err(|error| damaged(format!("not a kernel module: {error}")))?;
    let section = file
        .section_by_name(".modinfo")
        .ok_or_else(|| damaged("no .modinfo section".into()))?;
    let info = section
        .data()
        .map_err(|error| damaged(format!("unreadable .modinfo: {error}")))?;
    Ok(parse_depends(info))
}

fn parse_depends(info: &[u8]) -> Vec<String> {
    let entry = info
        .split(|byte| *byte == 0)
        .find_map(|entry| entry.strip_prefix(b"depends="));
    let text = String::from_utf8_lossy(entry.unwrap_or_default()).into_owned();
    text.split(',')
        .filter(|name| !name.is_empty())
        .map(module_name)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dependencies_come_from_modinfo() {
        assert_eq!(
            parse_depends(b"license=GPL\0depends=cxl-core,dax\0name=x\0"),
            ["cxl_core", "dax"]
        );
        assert!(parse_depends(b"license=GPL\0depends=\0").is_empty());
        assert!(parse_depends(b"").is_empty());
    }

    #[test]
    fn built_in_modules_are_not_looked_for_and_missing_ones_are_named() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("kernel")).unwrap();
        fs::write(
            dir.path().join("modules.builtin"),
            "kernel/drivers/virtio/virtio-pci.ko\n",
        )
        .unwrap();
        assert!(resolve(dir.path(), &["virtio_pci"]).unwrap().is_empty());
        let error = resolve(dir.path(), &["cxl_pci"]).unwrap_err().to_string();
        assert!(error.contains("kernel module cxl_pci"), "{error}");
    }

    #[test]
    fn a_damaged_module_is_named() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("kernel")).unwrap();
        fs::write(dir.path().join("modules.builtin"), "").unwrap();
        for file in ["bad.ko", "worse.ko.xz"] {
            fs::write(dir.path().join("kernel").join(file), "not a module").unwrap();
            let error = resolve(dir.path(), &[file.split('.').next().unwrap()])
                .unwrap_err()
                .to_string();
            assert!(error.contains(file), "{error}");
        }
    }
}
