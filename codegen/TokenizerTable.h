//===- TokenizerTable.h - The tokenizer in an artefact ----------*- C++ -*-===//
//
// Writes a tokenizer as the table `Tokenizer` of runtime/Artifact.fbs.
// models/TokenizerData.h is plain data on std alone and the only header of
// models that codegen includes; reading tokenizer.json stays in models.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_CODEGEN_TOKENIZERTABLE_H
#define TANDEM_CODEGEN_TOKENIZERTABLE_H

#include "models/TokenizerData.h"
#include "runtime/Artifact_generated.h"

namespace tandem::codegen {

/// Appends \p data to the buffer of \p builder, which must not be inside
/// another table. Equal data give equal bytes. All tokens together have fewer
/// than 2^31 bytes, as any flatbuffer.
flatbuffers::Offset<artifact::Tokenizer>
serializeTokenizer(flatbuffers::FlatBufferBuilder &builder,
                   const models::TokenizerData &data);

} // namespace tandem::codegen

#endif // TANDEM_CODEGEN_TOKENIZERTABLE_H
