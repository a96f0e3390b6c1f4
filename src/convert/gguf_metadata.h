// Metadata of a GGUF file that is made from another.
#pragma once

#include "convert/quant_preset.h"
#include "formats/gguf.h"

namespace kda {

/// Copies every key, known or not, in its order, but for those that a new file has of its own: split.*, and with a
/// preset those about the quantisation: general.file_type and general.quantization_version are written anew,
/// quantize.imatrix.* are left out. preset nullptr: types stay.
void copy_metadata(const GgufFile& from, const QuantPreset* preset, GgufWriter& to);

}  // namespace kda
